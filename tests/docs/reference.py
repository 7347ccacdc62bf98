#!/usr/bin/env python3
"""tests/docs/reference.py SOURCE PROGRAM FIXTURE: the reference has all that the program reads and writes.

- The keys of metrics, run.json, pilot.json, config.json, models, states and JSON of commands: collected from small runs
  (collect.py). Each has a row in the table of its section in docs/reference/, and a row names nothing that is not in the source.
- Keys in the source that no run has written: words in calls of jansson, keys of metadata, fields of states, rules of policies.
- Environment variables of src, tools, scripts and tests, and settings of CMake.
"""

import glob
import json
import os
import re
import sys
import tempfile

import collect

# Where the keys of each kind have their rows: page, and what the heading is.
SECTIONS = {
    "model": ("files.md", "Models"),
    "state": ("files.md", "States"),
    "config.json": ("files.md", "`config.json`"),
    "run.json": ("files.md", "`run.json`"),
    "pilot.json": ("files.md", "`pilot.json`"),
    "policy": ("files.md", "Policies"),
}
ALSO = {"state": "model"}  # a state also has the keys of a model
# Keys that mean several: an axis of a pilot, a roof of a device.
STAND_INS = [
    (r"^(cells\[\]\.settings|least_loss)\.\w+$", r"\1.NAME"),
    (r"^(devices\[\]\.roofs)\.\w+\.", r"\1.NAME."),
    (r"^(losses)\.\w+$", r"\1.NAME"),
]


def fail(message):
    fail.count += 1
    print(message)


fail.count = 0


def read(source, *parts):
    with open(os.path.join(source, *parts), encoding="utf-8") as file:
        return file.read()


def section_of(kind):
    if kind.startswith("metrics "):
        return "metrics.md", "`" + kind.split()[1] + "`"
    return SECTIONS.get(kind, ("json.md", f"`{kind}`"))


def rows_of(source, page, title):
    """The words in backquotes in the first column of the tables of a section; nothing if there is no such section."""
    rows, inside = set(), False
    for line in read(source, "docs/reference", page).split("\n"):
        heading = re.match(r"#+ (.*)", line)
        if heading:
            inside = title == heading.group(1) or (title.startswith("`") and title in heading.group(1).split(" and "))
        elif inside and line.startswith("| `"):
            rows.update(re.findall(r"`([^`]+)`", line.split(" | ")[0]))
    return rows


def stand_in(key):
    for pattern, replacement in STAND_INS:
        key = re.sub(pattern, replacement, key)
    return key


def check_keys(source, found):
    for kind in sorted(found):
        page, title = section_of(kind)
        rows = rows_of(source, page, title)
        if not rows:
            fail(f"docs/reference/{page} has no section {title} with a table of keys")
            continue
        if kind in ALSO:
            rows |= rows_of(source, *section_of(ALSO[kind]))
        for key in sorted({stand_in(key) for key in found[kind]} - rows):
            fail(f"docs/reference/{page}, {title}, has no row for `{key}`")


def sources(source, *patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(source, pattern), recursive=True)):
            yield path, read("", path)


def rows_of_all(source):
    rows = {}
    for page in ("files.md", "metrics.md", "json.md"):
        for line in read(source, "docs/reference", page).split("\n"):
            if line.startswith("| `"):
                for word in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                    rows.setdefault(word, page)
    return rows


def check_source(source):
    """Keys that no run may have written, and rows that no line of the source has."""
    rows = rows_of_all(source)
    last = {re.split(r"[.]", row)[-1].replace("[]", "") for row in rows}
    for path, text in sources(source, "tools/program/*.c", "tools/bench/*.c", "tools/common/*.c"):
        for call in re.findall(r"json_(?:pack|object_set(?:_new)?)\(([^;]*);", text):
            if call.startswith('"') or "{" in call:  # json_pack: keys alternate with values that are mostly no texts
                words = re.findall(r'(?<!\? )(?<!: )"([a-z][a-z0-9_]*)"(?=,)', call)
            else:
                words = re.findall(r'^[^,]*, "([a-z][a-z0-9_]*)"', call)
            for word in words:
                if word not in last and f'"{word}"' not in VALUES:
                    fail(f"{os.path.relpath(path, source)}: docs/reference has no row for the key `{word}`")
    for path, text in sources(source, "tools/**/*.c", "src/**/*.c", "src/**/*.h"):
        for key in re.findall(r'"(accrue\.[a-z0-9_.]*[a-z0-9_])"', text):
            if key not in rows and key != "accrue.state":
                fail(f"{os.path.relpath(path, source)}: docs/reference/files.md has no row for `{key}`")
        for key in re.findall(r'\b(?:FIELD|COUNT|NUMBER|AC_STATE_FIELD)\("([a-z_.]+)"', text):
            if "accrue.state." + key not in rows:
                fail(f"{os.path.relpath(path, source)}: docs/reference/files.md has no row for `accrue.state.{key}`")
    everything = "".join(text for _, text in sources(source, "tools/**/*.c", "src/**/*.c", "src/**/*.h"))
    for row, page in sorted(rows.items()):
        word = row.split(".")[-1].replace("[]", "")
        if row.startswith("accrue.state."):
            known = f'"{row[13:]}"' in everything or f'"{row}"' in everything
        elif row.startswith("accrue."):
            known = f'"{row}"' in everything
        else:
            known = not word or word == "NAME" or f'"{word}"' in everything or f'\\"{word}\\"' in everything or word.startswith("gemm_")
        if not known and not row.endswith((".json", ".jsonl", ".safetensors")):
            fail(f"docs/reference/{page}: nothing in the source writes `{row}`")


# Texts that json_pack takes as values.
VALUES = {'"gelu_new"', '"grid"', '"plan"', '"step"', '"spike"', '"layers"', '"growth"', '"noise_layers"', '"end"', '"gpt2"'}


def check_policy(source):
    schema = json.loads(read(source, "tools/package/policy.schema.json"))
    rows = rows_of(source, *section_of("policy"))
    for rule in schema["properties"]:
        if rule != "$schema" and rule not in rows:
            fail(f"docs/reference/files.md, Policies, has no row for `{rule}`")
    for rule in rows - set(schema["properties"]):
        fail(f"docs/reference/files.md, Policies: {rule} is not a rule of policy.schema.json")


def named_in(text):
    return set(re.findall(r"`([A-Z][A-Z0-9_]+)(?:=1)?`", text))


def check_environment(source):
    page, testing = read(source, "docs/reference/environment.md"), read(source, "docs/contribute/testing.md")
    variables, settings = page.split("## Settings of CMake")
    read_by_code = set()
    for _, text in sources(source, "src/**/*.c", "tools/**/*.c"):
        read_by_code.update(re.findall(r'getenv\("([A-Z0-9_]+)"', text))
    for _, text in sources(source, "tools/**/*.sh"):
        read_by_code.update(re.findall(r"\$\{?(ACCRUE_[A-Z0-9_]+)", text))
    read_by_tests = set()
    for _, text in sources(source, "tests/**/*.c", "tests/**/*.h"):
        read_by_tests.update(re.findall(r'getenv\("(ACCRUE_(?!TEST_AB?"|TEST_B")[A-Z0-9_]+)"', text))  # names that a test makes up
    for _, text in sources(source, "tests/**/*.sh"):
        read_by_tests.update(re.findall(r"\$\{?(ACCRUE_TEST_[A-Z0-9_]+)", text))
    named = {name for name in named_in(variables) if re.match(r"(ACCRUE|OMP|GOMP|OPENBLAS|XDG)_|(COLUMNS|HOME|TERM|TMPDIR)$", name)}
    for name in sorted(name for name in read_by_code - named if not name.startswith("ACCRUE_TEST_")):
        fail(f"docs/reference/environment.md lacks `{name}`, which the code reads")
    for name in sorted(named - read_by_code):
        fail(f"docs/reference/environment.md names `{name}`, which nothing reads")
    for name in sorted(read_by_tests - read_by_code - named_in(testing)):
        fail(f"docs/contribute/testing.md lacks `{name}`, which tests read")
    for name in sorted(n for n in named_in(testing) - read_by_tests - read_by_code if n.startswith("ACCRUE_")):
        fail(f"docs/contribute/testing.md names `{name}`, which nothing reads")

    cmake = read(source, "CMakeLists.txt")
    options = set(re.findall(r"option\((ACCRUE_\w+)", cmake)) | set(re.findall(r"set\((ACCRUE_\w+) [^\n]* CACHE ", cmake))
    for name in sorted(options ^ {name for name in named_in(settings) if name.startswith("ACCRUE_")}):
        fail(f"docs/reference/environment.md, Settings of CMake, and CMakeLists.txt disagree about `{name}`")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source = sys.argv[1]
    check_environment(source)
    check_policy(source)
    check_source(source)
    with tempfile.TemporaryDirectory() as folder:
        found = collect.collect(os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3]), folder)
    for kind in ("metrics growth", "metrics spike", "metrics layers", "metrics noise_layers", "metrics average", "run.json", "state"):
        if kind not in found:
            fail(f"no run has made {kind}: tests/docs/collect.py must")
    check_keys(source, found)
    print(f"{sum(len(keys) for keys in found.values())} keys in {len(found)} kinds of files, {fail.count} complaints")
    sys.exit(fail.count > 0)


if __name__ == "__main__":
    main()
