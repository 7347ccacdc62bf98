#!/usr/bin/env python3
"""tests/docs/commands.py SOURCE PROGRAM FIXTURE [--update] [PAGE...]: runs the commands of the documentation.

Each block ```console of README.md and docs/ is a talk with a shell: lines "$ COMMAND" and what they print, on stdout and
stderr together. The blocks of a page run in order, in one shell, in a folder that has the data of prepare(). docs/contribute/testing.md has the
rules by which printed output is compared. --update writes into the pages what was printed where it differs.

Words after "console": "near" lets whole numbers differ by a tenth, "shape" all numbers, "any" compares no text; "opencl"
needs such a device.

Commands that are only shown (indented, or in ```sh) do not run. Those of accrue must have flags that exist.
"""

import argparse
import concurrent.futures
import difflib
import gzip
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import pages

SECONDS = 120  # of a page, at most
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MARK = "\x01"  # before and after the status of a command, in what the shell prints

# A number, and what is after it if that is a unit of time or speed: these are different each time.
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w\.\w)")
TIME = re.compile(r"^ ?(s|ms|us|min|h|[A-Za-z]+/s)\b")
BYTES = re.compile(r"^ ?(B|bytes|[KMG]iB)\b")
# Lines that name the machine, or memory that depends on its CPU, after these words.
MACHINE = re.compile(r"^(device  |  (?:name|driver|compute units|memory|largest allocation|half precision|products of \w+)  "
                     r"|  *besides  |  *workspace  |time  )")
# What takes long says so after a second, and PoCL's compiler counts its warnings.
NOTICE = re.compile(r"^\d+ warnings? generated\.$|^(?!accrue:)[a-z]+(:\d+)?: .*(measur|compil|prepar|first |is an estimate|are estimates)|^validating \d")


class Command:
    def __init__(self, block, line):
        self.block, self.line = block, line
        self.text, self.expected = "", []
        self.printed, self.status = None, None


def commands_of(block):
    """The commands of a block ```console, each with the lines that it shall print."""
    found, more = [], False
    for number, line in enumerate(block.lines, block.line):
        if more:
            found[-1].text += "\n" + line
        elif line.startswith("$ "):
            found.append(Command(block, number))
            found[-1].text = line[2:]
        elif found:
            found[-1].expected.append(line)
        else:
            raise SystemExit(f"{block.where()}: output before the first command")
        more = (more or line.startswith("$ ")) and (line.endswith("\\") or open_quote(found[-1].text))
    return found


def open_quote(text):
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


# ---- comparing -----------------------------------------------------------------------------------


def number_agrees(expected, actual, before, after, words):
    """Whether two numbers are as equal as machines make them; before and after are the texts around them."""
    if "shape" in words or expected == actual or TIME.match(after) or "|  " in before or before.rstrip().endswith("+-"):
        return True
    a, b = float(expected.replace(",", "")), float(actual.replace(",", ""))
    if "e" in expected + actual:
        return a * b > 0 and 0.1 <= a / b <= 10
    if BYTES.match(after):
        return abs(a - b) <= 0.1 * max(abs(a), abs(b))
    if "." in expected or "." in actual:
        return abs(a - b) <= 0.05 * max(abs(a), abs(b))
    return "near" in words and abs(a - b) <= max(3, 0.1 * max(abs(a), abs(b)))


def line_agrees(expected, actual, words):
    expected, actual = expected.rstrip(), actual.rstrip()
    machine = MACHINE.match(expected)
    if machine:
        return actual.lstrip().startswith(machine.group(0).strip())
    if "..." in expected:
        return re.fullmatch(".*".join(re.escape(part) for part in expected.split("...")), actual) is not None
    # Ops that are not measured yet: "<= 5 MiB" for "5 MiB".
    expected, actual = expected.replace("<=", "  "), actual.replace("<=", "  ")
    one, other = list(NUMBER.finditer(expected)), list(NUMBER.finditer(actual))
    if [t.split() for t in NUMBER.split(expected)] != [t.split() for t in NUMBER.split(actual)]:
        return False
    return all(number_agrees(a.group(0), b.group(0), expected[:a.start()], expected[a.end():], words)
               for a, b in zip(one, other))


def agree(expected, actual, words):
    """Whether printed lines are those of the page, where a line "..." is any number of lines."""
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(agree(expected[1:], actual[skip:], words) for skip in range(len(actual) + 1))
    return bool(actual) and line_agrees(expected[0], actual[0], words) and agree(expected[1:], actual[1:], words)


def elide(expected, actual):
    """What was printed, cut like the page: of what is between two lines "..." the most similar lines stay."""
    parts = [list(lines) for cut, lines in itertools.groupby(expected, lambda line: line == "...") if not cut]
    if "..." not in expected or not parts or sum(map(len, parts)) > len(actual):
        return actual
    starts, ends = expected[0] != "...", expected[-1] != "..."
    kept, at = [], 0
    for i, part in enumerate(parts):
        last = len(actual) - sum(map(len, parts[i:]))
        choices = [0] if i == 0 and starts else [last] if i == len(parts) - 1 and ends else range(at, last + 1)
        best = max(choices, key=lambda k: sum(difflib.SequenceMatcher(None, *pair).ratio() for pair in zip(part, actual[k:])))
        kept += (["..."] if best > at else []) + actual[best:best + len(part)]
        at = best + len(part)
    return kept + (["..."] if at < len(actual) else [])


def complaint(command):
    """What is wrong with a command that has run, or nothing."""
    must_fail = any(line.startswith("accrue: ") for line in command.expected)
    if command.status is None:
        return "it did not end"
    if not command.status_is_shown and (command.status != 0) != must_fail:
        return f"it exits with {command.status}"
    if "any" in command.block.words:
        return "" if bool(command.expected) == bool(command.printed) else "it prints something else"
    if not agree(command.expected, command.printed, command.block.words):
        return "it prints something else"
    return ""


# ---- running -------------------------------------------------------------------------------------


def prepare(fixture, folder):
    """The data that every page may name."""
    def make(*words):
        subprocess.run([fixture, *words], check=True, cwd=folder)

    make("text", "book.txt", "37000")
    os.mkdir(os.path.join(folder, "digits"))
    make("digits", "digits", "t10k", "2000")
    for kind, name in (("images-idx3", "images"), ("labels-idx1", "labels")):
        path = os.path.join(folder, "digits", f"t10k-{kind}-ubyte")
        with open(path, "rb") as file, gzip.GzipFile(os.path.join(folder, "digits", name + ".gz"), "wb", mtime=0) as packed:
            packed.write(file.read())
        os.remove(path)
    os.mkdir(os.path.join(folder, "mnist"))
    make("digits", "mnist", "t10k", "500")
    make("digits", "mnist", "train", "2000")
    make("pictures", "pictures", "300", "1")
    make("masks", "shapes", "80", "1")
    make("tokens", "tokens.bin", "20000", "50257")
    os.mkdir(os.path.join(folder, "tiny"))
    make("llm", "tiny", "0")
    os.mkdir(os.path.join(folder, "tiny-llama"))
    make("llm", "tiny-llama", "1")
    with open(os.path.join(folder, "chats.jsonl"), "wb") as file:
        subprocess.run([fixture, "chats", "400"], check=True, stdout=file)
    shutil.copy(os.path.join(SOURCE, "tests", "vectors", "narrow_resnet18.pth"), os.path.join(folder, "published.pth"))
    shutil.copytree(os.path.join(SOURCE, "examples", "models"), os.path.join(folder, "models"))


def run_page(arguments, page, data):
    """Runs the commands of a page; returns them, with what each has printed."""
    blocks = pages.read_blocks(arguments.source, page)
    script, commands = [], []
    for block in blocks:
        if block.language == "setup":
            script.append(f"{{ {block.lines[0]}\n}} >/dev/null 2>&1 || echo '{MARK}setup failed: {block.where()}'")
        elif block.language == "console" and ("opencl" not in block.words or arguments.opencl):
            for command in commands_of(block):
                commands.append(command)
                script.append(f"{command.text}\ndocs_status=$?; echo '{MARK}'$docs_status'{MARK}'; (exit $docs_status)")
    if not commands:
        return [], ""
    for command, following in zip(commands, commands[1:] + [None]):
        command.status_is_shown = following is not None and following.text == "echo $?"

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(data, folder, dirs_exist_ok=True)
        environment = dict(os.environ, PATH=os.path.dirname(os.path.abspath(arguments.program)) + ":" + os.environ["PATH"],
                           OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive", LC_ALL="C.UTF-8", TERM="dumb", HOME=folder,
                           ACCRUE_SOURCE=os.path.abspath(arguments.source))
        with open(os.path.join(folder, ".commands"), "w", encoding="utf-8") as file:
            file.write("\n".join(script) + "\n")
        # A file, not a pipe: what a stopped page leaves running would hold a pipe open.
        with open(os.path.join(folder, ".printed"), "wb") as file:
            shell = subprocess.Popen(["bash", ".commands"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                shell.wait(arguments.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
        with open(os.path.join(folder, ".printed"), "rb") as file:
            printed = file.read().decode("utf-8", "backslashreplace")
    failed = re.search(MARK + r"(setup failed: .*)", printed)
    parts = re.split(MARK + r"(\d+)" + MARK + "\n", printed)
    for command, text, status in zip(commands, parts[0::2], parts[1::2]):
        command.printed = [line for line in text.rstrip("\n").split("\n") if not NOTICE.match(line)] if text.strip("\n") else []
        command.status = int(status)
    return commands, failed.group(1) if failed else ""


def update(source, page, commands):
    """Writes what was printed into the page, where it differs."""
    path = os.path.join(source, page)
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for command in reversed(commands):
        free = "any" in command.block.words and command.printed != command.expected
        if command.printed is None or (complaint(command) != "it prints something else" and not free):
            continue
        first = command.line - 1 + command.text.count("\n") + 1
        lines[first:first + len(command.expected)] = elide(command.expected, command.printed)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


# ---- what is only shown ---------------------------------------------------------------------------


def check_shown(arguments, page):
    """Commands that do not run: a page says why it does not run what has output; flags exist; blocks have a language."""
    wrong = []
    for block in pages.read_blocks(arguments.source, page):
        if block.language == "":
            wrong.append(f"{block.where()}: the fence names no language; take one of {' '.join(pages.LANGUAGES)}")
        elif block.language not in pages.LANGUAGES + ["indented", "setup"]:
            wrong.append(f"{block.where()}: {block.language} is not one of {' '.join(pages.LANGUAGES)}")
        elif block.language in ("text", "sh", "indented") and any(line.startswith("$ ") for line in block.lines):
            if "no test runs" not in block.before.lower():
                wrong.append(f"{block.where()}: make it ```console, or say before it «No test runs this, because ...»")
        if block.language in ("sh", "indented"):
            text = "\n".join(line[2:] if line.startswith("$ ") else line for line in block.lines)
            for line in text.replace("\\\n", " ").split("\n"):
                wrong += [f"{block.where()}: {message}" for message in check_flags(arguments.program, line)]
    return wrong


def check_records(arguments):
    """Commands in the texts of flags: their flags exist, unless the text shows the refusal."""
    names = sorted(os.listdir(os.path.join(arguments.source, "docs/flags")))
    blocks = [block for name in names if name.endswith(".md") for block in pages.read_blocks(arguments.source, "docs/flags/" + name)]
    lines = [(block, line[2:]) for block in blocks for line in block.lines if line.startswith("$ accrue ")]
    wrong = [f"{block.where()}: {message}" for block, line in lines for message in check_flags(arguments.program, line)
             if not message.startswith(tuple(shown for shown in block.lines if shown.startswith("accrue: ")))]
    return wrong if len(lines) > 100 else wrong + [f"docs/flags: only {len(lines)} commands were found"]


def check_flags(program, line):
    """Whether the program knows the flags of a command line: with --help after them it does nothing but refuse them."""
    if not re.match(r"^([A-Z_]+=\S+ )*accrue [a-z]", line):
        return []
    words = shlex.split(re.split(r" [|>&] |\s\d?[|>]", line)[0], comments=True)
    while "=" in words[0]:
        words.pop(0)
    if "..." in line or any(word.isupper() for word in words):
        return []
    result = subprocess.run([program, *words[1:], "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    # A command that reads a model or a run looks for it first.
    return [] if result.returncode == 0 or re.search("cannot read|no run to resume", result.stderr) else [result.stderr.strip().split("\n")[0] + ": " + line.strip()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("program")
    parser.add_argument("fixture")
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_intermixed_args()
    arguments.program, arguments.fixture = os.path.abspath(arguments.program), os.path.abspath(arguments.fixture)

    devices = subprocess.run([arguments.program, "devices"], capture_output=True, text=True, check=True).stdout
    arguments.opencl = "opencl:0" in devices
    if not arguments.opencl:
        print("no OpenCL device: blocks that need one do not run")

    chosen = arguments.pages or pages.find_pages(arguments.source)
    count, wrong = 0, 0
    with tempfile.TemporaryDirectory() as data, concurrent.futures.ThreadPoolExecutor(2) as pool:
        prepare(arguments.fixture, data)
        for page, (commands, failed) in zip(chosen, pool.map(lambda page: run_page(arguments, page, data), chosen)):
            messages = ([failed] if failed else []) + check_shown(arguments, page)
            for command in commands:
                count += 1
                message = complaint(command)
                if not message:
                    continue
                messages.append(f"{page}:{command.line}: {message}: {command.text}")
                if command.printed is not None:
                    messages += ["  page    | " + line for line in command.expected]
                    messages += ["  printed | " + line for line in command.printed[-60:]]
            for message in messages:
                print(message)
            wrong += len(messages) > 0
            if arguments.update:
                update(arguments.source, page, commands)
    if not arguments.pages:
        messages = check_records(arguments)
        wrong += len(messages)
        for message in messages:
            print(message)
    print(f"{count} commands of {len(chosen)} pages, {wrong} pages are wrong")
    if not arguments.pages and count < 60:
        print("fewer than 60 commands: where are the others?")
        wrong += 1
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
