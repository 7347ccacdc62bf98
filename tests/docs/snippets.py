#!/usr/bin/env python3
"""tests/docs/snippets.py SOURCE CC CXX CMAKE: compiles, configures or parses each block of code of the documentation.

- ```c and ```cpp: compiled against include/ without warnings. A block with #include is a whole file. Others get
  tests/docs/snippets.h before them. If their first line is indented they are the inside of a function.
  A block whose lines are all in an example that the page names, in order, is compiled with that.
- ```c "not compiled: REASON": the only way around that; there may be few of them.
- ```cmake: configured, with an accrue of empty targets.
- ```json: parsed.
- ```sh, and commands that are indented or in ```console: parsed by bash.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import pages

MOST_NOT_COMPILED = 2
WARNINGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-variable",
            "-Wno-unused-const-variable", "-Wno-unused-but-set-variable"]
TARGETS = """
foreach(target accrue accrue_static)
  if(NOT TARGET accrue::${target})
    add_library(accrue_${target} INTERFACE)
    add_library(accrue::${target} ALIAS accrue_${target})
  endif()
endforeach()
"""


def run(*words, folder=None, text=None):
    """What a program that fails says; empty if it does not fail."""
    result = subprocess.run(words, cwd=folder, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "" if result.returncode == 0 else result.stdout or f"exit status {result.returncode}"


def program_of(block, others):
    """A file of C or C++ that has the block at its own line numbers; others are blocks of the same page before it."""
    line = f'#line {block.line} "{block.page}"\n'
    if "#include" in block.text():
        return line + block.text()
    head = '#include "snippets.h"\n'
    if block.language == "cpp":  # blocks of a page go on with each other
        head += "".join(other.text() for other in others if not is_inside_function(other))
    if is_inside_function(block):
        return head + "int snippet(void) {\n" + variables_for(block) + line + block.text() + "return 0;\n}\n"
    return head + line + block.text()


def is_inside_function(block):
    """The layout says so, or a first line that can only be in a function."""
    statement = r"(fit\.|\w+ \w+\(make)" if block.language == "cpp" else r"ac_\w+ \w+ = AC_DEFAULTS;"
    return block.lines[0].startswith(" ") or re.match(statement, block.lines[0]) is not None


def variables_for(block):
    """What the inside of a function may name. Types of the C++ page have the names of the variables in C."""
    if block.language == "c":
        return "SNIPPET_VARIABLES\nSNIPPET_USED\n"
    network = "auto network = [] { return graph(nullptr); };\n" if "network()" in block.text() else ""
    return "SNIPPET_CXX_VARIABLES\n" + network


def is_quoted(source, block):
    """Whether the block is a part of a program in examples/ that its page leads to; the build compiles these."""
    with open(os.path.join(source, block.page), encoding="utf-8") as file:
        names = set(re.findall(r"examples/([\w/]+\.(?:c|cpp|h))\b", file.read()))
    wanted = [line.strip() for line in block.lines if line.strip()]
    for name in sorted(names):
        path = os.path.join(source, "examples", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines = (line.strip() for line in file)
                if all(line in lines for line in wanted):  # each search goes on after the last line that was found
                    return True
    return False


def check_c(source, compiler, standard, block, others):
    language = "c++" if block.language == "cpp" else "c"
    return run(compiler, "-x", language, standard, *WARNINGS, "-I", os.path.join(source, "include"), "-I",
               os.path.join(source, "tests/docs"), "-", text=program_of(block, others))


def check_cmake(cmake, block):
    with tempfile.TemporaryDirectory() as folder:
        def write(path, text):
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        for path in ("main.c", "consumer/main.c", "your_program.c"):
            write("project/" + path, "int main(void) { return 0; }\n")
        write("consumer/main.c", "int main(void) { return 0; }\n")
        write("prefix/accrueConfig.cmake", TARGETS + "set(accrue_static_FOUND TRUE)\n")
        write("prefix/accrueConfigVersion.cmake", "set(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
        write("accrue/CMakeLists.txt", TARGETS)
        write("project/third_party/accrue/CMakeLists.txt", TARGETS)
        head = "" if "project(" in block.text() else \
            "cmake_minimum_required(VERSION 3.21)\nproject(snippet LANGUAGES C)\ninclude(FetchContent)\n" \
            "add_executable(your_program your_program.c)\n"
        write("project/CMakeLists.txt", head + block.text())
        return run(cmake, "-S", os.path.join(folder, "project"), "-B", os.path.join(folder, "build"),
                   f"-Daccrue_DIR={folder}/prefix", f"-DACCRUE_SOURCE={folder}/accrue")


def check_json(block):
    try:
        json.loads(block.text())
    except ValueError as error:
        return str(error)
    return ""


def check_shell(block):
    text = block.text()
    if block.language == "console":
        text = "\n".join(line[2:] if line.startswith("$ ") else line for line in block.lines if line.startswith("$ "))
        if "\\\n" in block.text() or "'" in text:  # commands of several lines: commands.py runs them
            return ""
    return run("bash", "-n", text=text)


def is_command(block):
    return block.language in ("sh", "console") or (
        block.language == "indented" and re.match(r"(\$ |accrue |cmake |ctest |cc |\./|tools/|build/|tests/|make\b|export )", block.lines[0]))


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    source, compilers, cmake = sys.argv[1], {"c": (sys.argv[2], "-std=c17"), "cpp": (sys.argv[3], "-std=c++11")}, sys.argv[4]
    checks, left_out, count, quoted = [], [], {}, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for page in sys.argv[5:] or pages.find_pages(source):
            if page.startswith("docs/reference/api/"):  # declarations, made from the headers that the build compiles
                continue
            before = []
            for block in pages.read_blocks(source, page):
                words = " ".join(block.words)
                check = None
                if block.language in compilers and re.match(r"not compiled: \w", words):
                    left_out.append(block.where())
                elif block.language in compilers:
                    compiler, standard = compilers[block.language]
                    if is_quoted(source, block):
                        quoted += 1
                    elif block.before.startswith("Part of [examples/"):
                        check = pool.submit(str, "it is not a part of that example: a line differs, or is in another place")
                    elif compiler:
                        check = pool.submit(check_c, source, compiler, standard, block, list(before))
                    before.append(block)
                elif block.language == "cmake":
                    check = pool.submit(check_cmake, cmake, block)
                elif block.language == "json":
                    check = pool.submit(check_json, block)
                elif is_command(block):
                    check = pool.submit(check_shell, block)
                if check:
                    checks.append((block, check))
                    count[block.language] = count.get(block.language, 0) + 1
        wrong = 0
        for block, check in checks:
            message = check.result()
            if message:
                print(f"{block.where()}: this block of {block.language} is wrong:\n{message.rstrip()}")
                wrong += 1
    print(", ".join(f"{number} {language}" for language, number in sorted(count.items())), f"- {wrong} are wrong; {quoted} more are parts of examples")
    if len(left_out) > MOST_NOT_COMPILED:
        print(f"more than {MOST_NOT_COMPILED} blocks are not compiled: {' '.join(left_out)}")
        wrong += 1
    if not sys.argv[5:] and count.get("c", 0) + quoted < 15:
        print("fewer than 15 blocks of C: where are the others?")
        wrong += 1
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
