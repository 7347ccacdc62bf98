#!/usr/bin/env python3
"""Conversations as Jinja renders them with the templates of published models.

    chat_templates.py TEMPLATES OUT.json [--conversations N] [--jinja]

TEMPLATES is a folder of `chat_template` texts, named MODEL--NAME.jinja, where NAME is what the library calls the template.
Each is rendered as transformers does it (trim_blocks, lstrip_blocks, raise_exception; without strftime_now, so that the date
is the template's own). The texts themselves are not in the project; tests/vectors/chat/templates.json has for one model a
template a few conversations, made with --conversations 5, and the hash by which each text is recognised is in
src/chat/recognise.c. With --jinja the texts are put into OUT.json, so that the test recognises them:

    chat_templates.py TEMPLATES all.json --conversations 200 --jinja && build/ci/bin/test_chat_templates all.json

What is learned is found in the rendered text without the library: each message has words of its own, so an answer and what
ends its turn are searched there, one after the other."""
import argparse
import datetime
import json
import os
import random

import jinja2
import jinja2.ext
import jinja2.sandbox

BLANKS = ["", "", "", "", " ", "\n", "  ", "\n\n", "\t", "\u00a0", "\u3000 ", "\u2028"]
WORDS = ["the", "Wort", "日本語", "числа", "naïve", "12345", "a_b", "e\u0301", "🙂🙃", "if (x < 3) {\n  y();\n}", "3.14", "don't", "عربي", "\n- item",
         "x\ty", "[/INST", "<|", "{{ y }}", "ZWJ👩‍👩‍👧", "UPPER", "...", "—", "\r\n", "'quoted'", "\"double\""]
# What ends an answer.
ENDS = {"llama2": " </s>", "zephyr": "</s>", "gemma": "<end_of_turn>", "gemma3": "<end_of_turn>", "llama3": "<|eot_id|>",
        "llama3.1": "<|eot_id|>"}
TRIMS = {"llama2", "llama3", "llama3.1", "gemma", "gemma3", "mistral-v3"}
TOKENS = {"llama2": ("<s>", "</s>"), "zephyr": ("<s>", "</s>"), "gemma": ("<bos>", "<eos>"), "gemma3": ("<bos>", "<eos>"),
          "llama3": ("<|begin_of_text|>", "<|eot_id|>"), "llama3.1": ("<|begin_of_text|>", "<|eot_id|>")}
COMMANDS = ["/think", "/no_think", "/system_override", "/no_think /system_override"]
# A system message may be anywhere.
FREE = ("chatml", "qwen3", "llama3", "phi3", "zephyr")


def end_of(name):
    if name in ENDS:
        return ENDS[name]
    return "</s>" if name.startswith("mistral") else "<|end|>" if name.startswith("phi3") else "<|im_end|>"


def tokens_of(name):
    if name in TOKENS:
        return TOKENS[name]
    return ("<s>", "</s>") if name.startswith("mistral") else ("<s>", "<|endoftext|>") if name.startswith("phi3") else ("", "<|im_end|>")


def text(rng, number, role, name):
    if rng.random() < 0.03:
        return rng.choice(["", " ", "\n \n"])
    words = [rng.choice(WORDS) for _ in range(rng.randrange(1, 9))]
    content = " ".join([f"m{number}q"] + words)
    if name == "qwen3" and role == "assistant" and rng.random() < 0.5:
        thoughts = rng.choice(["", "\n", f"\nt{number}q thinks\n", f"t{number}q <think>\n\nagain\n\n", f"t{number}q"])
        content = rng.choice(["", "<think>", "<think>\n"]) + thoughts + "</think>" + rng.choice(["", "\n\n"]) + content
    if name.startswith("smollm3") and role == "system" and rng.random() < 0.6:
        content = rng.choice(["", content + " "]) + rng.choice(COMMANDS) + rng.choice(["", " " + content])
    if name.startswith("smollm3") and role == "assistant" and rng.random() < 0.3:
        content = rng.choice(["", "\n\n"]) + f"<think>\nt{number}q\n</think>\n" + content
    if name == "qwen3" and role == "user" and rng.random() < 0.2:
        content = "<tool_response>" + content + "</tool_response>"
        return content
    return rng.choice(BLANKS) + content + rng.choice(BLANKS)


def conversation(rng, name):
    roles = ["system"] if rng.random() < (0.8 if name.startswith("smollm3") else 0.4) else []
    for i in range(rng.randrange(1, 7)):
        roles.append("assistant" if i % 2 else "user")
    if rng.random() < 0.1:
        roles.insert(rng.randrange(len(roles) + 1), rng.choice(["user", "assistant"]))
    if name.startswith(FREE) and rng.random() < 0.1:
        roles.insert(rng.randrange(len(roles) + 1), "system")
    return [{"role": role, "content": text(rng, i, role, name)} for i, role in enumerate(roles)]


class Generation(jinja2.ext.Extension):
    """What transformers has for the parts that a model generates: here they are nothing but their text."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment(name):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                        extensions=["jinja2.ext.loopcontrols", Generation])
    if name.startswith("smollm3"):  # others have a date of their own where there is no clock
        made.globals["strftime_now"] = lambda form: datetime.date(2024, 7, 26).strftime(form)
    made.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    made.globals["raise_exception"] = raise_exception
    return made


def is_whole(render, messages):
    """Whether the template renders each message. The library refuses what one leaves out without a word."""
    marked = render([{"role": m["role"], "content": f"mark{i}mark"} for i, m in enumerate(messages)])
    return all(f"mark{i}mark" in marked for i in range(len(messages)))


def is_after_query(messages, i):
    queries = [k for k, m in enumerate(messages) if m["role"] == "user" and not
               (m["content"].startswith("<tool_response>") and m["content"].endswith("</tool_response>"))]
    return i > (queries[-1] if queries else len(messages) - 1)


def thoughts_of(name, messages, i):
    """What Qwen3 keeps of an answer's thoughts, with their marks."""
    content = messages[i]["content"]
    if name != "qwen3" or "</think>" not in content or not is_after_query(messages, i):
        return ""
    thoughts = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n").strip("\n")
    return f"<think>\n{thoughts}\n</think>\n\n" if thoughts else ""


def learned(name, messages, rendered):
    spans, at, end = [], 0, end_of(name)
    for i, message in enumerate(messages):
        content = message["content"].split("</think>")[-1] if name == "qwen3" else message["content"]
        if name in TRIMS:
            content = content.strip()
        if name == "qwen3" and ("</think>" in message["content"] or i == len(messages) - 1 and is_after_query(messages, i)):
            content = content.lstrip("\n")
        if message["role"] == "system": # may be put elsewhere
            continue
        if message["role"] == "user":
            at = rendered.index(content.strip(), at) + len(content.strip())
            continue
        if name.startswith("smollm3"):
            content = content.lstrip("\n")
        whole = thoughts_of(name, messages, i) + content + end
        begin = rendered.index(whole, at)
        at = begin + len(whole)
        spans.append([len(rendered[:begin].encode()), len(rendered[:at].encode())])
    return spans


def make(name, source, count, seed):
    rng = random.Random(f"{name} {seed}")
    template = environment(name).from_string(source)
    begin, end = tokens_of(name)
    cases = []
    while len(cases) < count:
        messages, prompt = conversation(rng, name), rng.random() < 0.4
        case = {"messages": messages, "prompt": prompt}

        def render(these):
            return template.render(messages=these, add_generation_prompt=prompt, bos_token=begin, eos_token=end, tools=None)
        try:
            rendered = render(messages) if is_whole(render, messages) else None
        except (jinja2.exceptions.TemplateError, IndexError):
            rendered = None
        only_system = all(m["role"] == "system" for m in messages)
        if rendered is not None and not only_system:
            if any(not m["content"].strip() for m in messages) and count < 50:
                continue
            case["text"] = rendered
            # Blank messages cannot be searched for.
            if all(m["content"].split("</think>")[-1].strip() for m in messages):
                case["learned"] = learned(name, messages, rendered)
        elif count < 50 and rng.random() < 0.9:
            continue
        cases.append(case)
    return {"name": name, "begin": begin, "end": end, "cases": cases}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("templates")
    parser.add_argument("out")
    parser.add_argument("--conversations", type=int, default=5)
    parser.add_argument("--jinja", action="store_true")
    arguments = parser.parse_args()
    made, names = [], set()
    for file in sorted(os.listdir(arguments.templates)):
        if not file.endswith(".jinja"):
            continue
        name = file[:-len(".jinja")].split("--")[1]
        if name in names and not arguments.jinja:
            continue
        names.add(name)
        with open(os.path.join(arguments.templates, file), newline="") as stream:
            source = stream.read()
        one = make(name, source, arguments.conversations, file if arguments.jinja else 0)
        if arguments.jinja:
            one["file"], one["jinja"] = file, source
        made.append(one)
    with open(arguments.out, "w") as stream:
        stream.write("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in made) + "\n]\n")


if __name__ == "__main__":
    main()
