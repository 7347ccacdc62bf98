#!/usr/bin/env python3
"""What may still change cannot be used by a program that defines AC_STABLE_ONLY, and all else can.

    stable_only.py SOURCE COMPILER...

Each name that a header declares after its heading «may still change», and each member or enumerator
after such a heading in a type, becomes one small function. All of them compile without the switch.
With the switch none does, and neither does a call of a function. The headers and some of the
examples compile with it."""

import glob
import os
import re
import subprocess
import sys

source, compilers = sys.argv[1], sys.argv[2:]
HEADING = re.compile(r"/\* ---- may still change -* \*/")
HEADERS = sorted(glob.glob(os.path.join(source, "include/accrue/*.h")))


def declared(text):
    """(kind, name) of all that a piece of a header declares: functions, types and constants."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\bAC_UNSTABLE\((\w+)\)", r"\1", text)
    found = [("constant", name) for name in re.findall(r"#define (AC_\w+)", text)]
    text = re.sub(r"^ *#.*$", "", text, flags=re.M)
    for body in re.findall(r"\benum\b[^{;]*\{(.*?)\}", text, flags=re.S):
        found += [("constant", name) for name in re.findall(r"(?:^|,)\s*(AC_\w+)", body)]
    text = re.sub(r"\{[^{}]*\}", " ", re.sub(r"\{[^{}]*\}", " ", text))
    for one in re.sub(r"\s+", " ", text).split(";"):
        function = re.search(r"AC_API .*?(\w+)\(", one)
        pointer = re.search(r"typedef .*\(\*(\w+)\)\(", one)
        plain = re.search(r"typedef .*\b(\w+)$", one.strip())
        if function:
            found.append(("function", function.group(1)))
        elif pointer or plain:
            found.append(("type", (pointer or plain).group(1)))
    return found


def members(path, text):
    """("member", "type.name") or ("constant", name) of what comes after a heading within a type."""
    found = []
    for kind, body, name in re.findall(r"^typedef (struct|enum) \w+ \{\n(.*?)^\} (\w+);", text,
                                       flags=re.S | re.M):
        stable, *rest = re.split(HEADING, body)
        if "AC_UNSTABLE" in stable:
            sys.exit("%s: a member of %s may still change, but has no heading before it" % (path, name))
        for one in re.split(r";|,(?![^()]*\))", re.sub(r"/\*.*?\*/", " ", "".join(rest), flags=re.S)):
            word = re.search(r"AC_UNSTABLE\((\w+)\)(?:\)\(.*\)|\[\w+\]| = \d+)?\s*$", one)
            if word:
                found.append(("constant", word.group(1)) if kind == "enum" else
                             ("member", name + "." + word.group(1)))
            elif one.strip():
                sys.exit("%s: «%s» of %s comes after the heading, but is not in AC_UNSTABLE" % (
                    path, one.strip(), name))
    return found


def names_of(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if "May still change" in text:
        sys.exit("%s: what may still change stands under a heading, without a remark" % path)
    stable, *block = re.split(r"^" + HEADING.pattern, text, flags=re.M)
    return members(path, stable) + declared("".join(block))


USES = {"function": ["(void)sizeof(&%s);", "%s();"], "type": ["(void)sizeof(%s *);"],
        "constant": ["(void)sizeof(%s);"],
        "member": ["(void)sizeof(((%s *)0)->%s);", "%s x = {.%s = {0}}; (void)x;"]}


def program(names, call):
    """One function for each use, and the name of the use by line."""
    lines, uses = [], []
    for kind, name in names:
        for use in USES[kind][:None if call else 1 if kind == "function" else None]:
            lines.append("void f%d(void); void f%d(void) { %s }" % (
                len(uses), len(uses), use % tuple(name.split("."))))
            uses.append("%s: %s" % (name, use))
    return '#include <accrue/accrue.h>\n#line 1 "uses"\n' + "\n".join(lines) + "\n", uses


def compile_text(compiler, text, *flags):
    everything = ["-ferror-limit=0"] if "clang" in compiler else ["-fmax-errors=0"]
    return subprocess.run([compiler, "-std=c17", "-fsyntax-only", "-I",
                           os.path.join(source, "include"), *everything, *flags, "-x", "c", "-"],
                          input=text, text=True, stderr=subprocess.PIPE, check=False)


def main():
    names = [one for path in HEADERS for one in names_of(path)]
    kinds = {kind: sum(one[0] == kind for one in names) for kind in USES}
    print(", ".join("%d %ss" % (count, kind) for kind, count in kinds.items()) + " may still change")
    if min(kinds.values()) < 10:
        sys.exit("Too few: this test does not see what is there.")
    strict, switch = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"], "-DAC_STABLE_ONLY"
    stable = ["#include <accrue/%s>\n" % os.path.basename(path) for path in HEADERS]
    for name in ("first_model", "custom_loop", "predict"):
        with open(os.path.join(source, "examples", name + ".c"), encoding="utf-8") as file:
            stable.append('#line 1 "%s"\n' % name + file.read())
    for compiler in compilers:
        text, _ = program(names, False)
        result = compile_text(compiler, text, "-w")
        if result.returncode:
            sys.exit("%s: without the switch not all compiles:\n%s" % (compiler, result.stderr))
        text, uses = program(names, True)
        errors = {int(line) for line in re.findall(r"^uses:(\d+):.*\berror:",
                                                   compile_text(compiler, text, switch).stderr, re.M)}
        left = [use for line, use in enumerate(uses, 1) if line not in errors]
        if left:
            sys.exit("%s: with the switch these still compile:\n%s" % (compiler, "\n".join(left)))
        for text in stable:
            result = compile_text(compiler, text, switch, *strict)
            if result.returncode:
                sys.exit("%s: what is stable does not compile:\n%s\n%s" % (
                    compiler, text.split("\n")[0], result.stderr))


main()
