#!/usr/bin/env python3
"""Finds every public function, struct member, enumerator and macro in docs/reference/api.

    api_names.py SOURCE COMPILER LIBRARY

It does not read what Doxygen or the writer of the pages have read: functions are the exported
symbols of the library, members and enumerators are those of the headers after the preprocessor,
and macros are those that the preprocessor lists."""

import glob
import os
import re
import subprocess
import sys

source, compiler, library = sys.argv[1:]
include = os.path.join(source, "include")


def output_of(*command, text=""):
    return subprocess.run(command, input=text, check=True, text=True, stdout=subprocess.PIPE).stdout


def functions():
    listed = output_of("nm", "-D", "--defined-only", library).split("\n")
    return [line.split()[-1] for line in listed if re.search(r" T ac_\w+$", line)]


def preprocessed():
    """The headers alone: no comments, no system headers, one space between words."""
    text = output_of(compiler, "-std=c17", "-E", "-I", include, "-x", "c", "-",
                     text="#include <accrue/accrue.h>\n")
    lines, own = [], False
    for line in text.split("\n"):
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            own = "/accrue/" in marker.group(1)
        elif own:
            lines.append(line)
    return re.sub(r"\s+", " ", " ".join(lines))


def structs(text):
    """(struct, member) of all: the last word before [, ), : or the end of each declaration."""
    pairs = []
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text):
        for declaration in body.split(";"):
            pointer = re.search(r"\(\*(\w+)\)", declaration)
            if pointer:
                pairs.append((name, pointer.group(1)))
                continue
            for one in declaration.split(","):
                word = re.search(r"(\w+) *(?:\[[^\]]*\])* *$", one)
                if word:
                    pairs.append((name, word.group(1)))
    return pairs


def enumerators(text):
    return [one.split("=")[0].strip() for body in re.findall(r"enum \w* ?\{(.*?)\}", text)
            for one in body.split(",") if one.strip()]


def types(text):
    """Names of typedefs: those of functions have theirs in brackets or before them."""
    plain = re.findall(r"typedef (?:struct|enum) \w+ (?:\{[^{}]*\} )?(\w+);", text)
    pointers = re.findall(r"typedef [^;{}()]*\(\*(\w+)\)", text)
    return plain + pointers + re.findall(r"typedef \w+ (ac_\w+)\(", text)


def macros():
    def defined(text):
        listed = output_of(compiler, "-std=c17", "-E", "-dM", "-I", include, "-x", "c", "-",
                           text=text)
        return set(re.findall(r"#define (\w+)", listed))
    own = {name for name in defined("#include <accrue/accrue.h>\n") if name.startswith("AC_")}
    return sorted(own - {"AC_API"})


def main():
    pages = {}
    for path in sorted(glob.glob(os.path.join(source, "docs/reference/api/*.md"))):
        with open(path, encoding="utf-8") as file:
            pages[os.path.basename(path)] = file.read()
    index = pages.pop("README.md")
    sections = {}
    for page in pages.values():
        for part in re.split(r"^### ", page, flags=re.M)[1:]:
            name, _, text = part.partition("\n")
            sections[name] = text
    text, missing = preprocessed(), []
    listed = {"function": functions(), "type": types(text), "macro": macros()}
    for kind, names in listed.items():
        missing += ["%s %s" % (kind, name) for name in names
                    if not sections.get(name, "").strip()]
    missing += ["%s, in the index" % name for name in listed["function"] if name not in index]
    members = structs(text)
    missing += ["member %s.%s" % pair for pair in members if not re.search(
        r"^- `[^`]*\b%s\b[^`]*`:\s+\S" % pair[1], sections.get(pair[0], ""), re.M)]
    values = enumerators(text)
    missing += ["enumerator " + name for name in values if not any(
        re.search(r"^- `%s\b[^`]*`: \S" % name, section, re.M) for section in sections.values())]
    counts = [len(names) for names in listed.values()] + [len(members), len(values)]
    print("%d functions, %d types, %d macros, %d members, %d enumerators" % tuple(counts))
    if min(counts) < 10:
        sys.exit("Too few: this test does not see what is there.")
    if missing:
        sys.exit("docs/reference/api lacks:\n  " + "\n  ".join(missing) +
                 "\nRun tools/api_reference.py; what it does not write it has not understood.")


main()
