"""Reads the blocks of code of the documentation.

A block is fenced with a word for its language (```c), or indented by four spaces after an empty line. An HTML comment
"<!-- setup: COMMAND -->" is a command that readers need not see; it is a block of the language "setup".
"""

import os
import re

# What a fence may say. "text" is for what nothing checks: the form of a file, a picture of a layout.
LANGUAGES = ["c", "cpp", "cmake", "json", "sh", "console", "make", "text"]


class Block:
    def __init__(self, page, line, language, words, lines, before):
        self.page = page          # path, relative to the source
        self.line = line          # number of the first line inside, from 1
        self.language = language  # "" if the fence names none, "indented", or "setup"
        self.words = words        # what else the fence says
        self.lines = lines
        self.before = before      # the paragraph before the block, as one line

    def where(self):
        return f"{self.page}:{self.line}"

    def text(self):
        return "\n".join(self.lines) + "\n"


def find_pages(source):
    """README.md and all pages of docs, as paths relative to source. docs/flags is made from records of its own."""
    pages = ["README.md"]
    for folder, folders, names in os.walk(os.path.join(source, "docs")):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), source)
            if name.endswith(".md") and not path.startswith("docs/flags"):
                pages.append(path)
    return pages


def read_blocks(source, page):
    """The blocks of a page, in order."""
    with open(os.path.join(source, page), encoding="utf-8") as file:
        lines = file.read().split("\n")
    blocks, paragraph, i = [], [], 0
    while i < len(lines):
        line = lines[i]
        fence = re.match(r"^( *)```(.*)$", line)
        setup = re.match(r"^<!-- setup: (.*) -->$", line)
        if fence:
            words = fence.group(2).split()
            inside = []
            i += 1
            first = i + 1
            while not re.match(r"^ *```$", lines[i]):
                inside.append(lines[i][len(fence.group(1)):])
                i += 1
            blocks.append(Block(page, first, words[0] if words else "", words[1:], inside, " ".join(paragraph)))
        elif setup:
            blocks.append(Block(page, i + 1, "setup", [], [setup.group(1)], ""))
        elif line.startswith("    ") and (i == 0 or not lines[i - 1].strip()) and not in_list(lines, i):
            inside, first = [], i + 1
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                inside.append(lines[i][4:])
                i += 1
            while not inside[-1].strip():
                inside.pop()
            blocks.append(Block(page, first, "indented", [], inside, " ".join(paragraph)))
            continue
        elif line.strip():
            if i and not lines[i - 1].strip():
                paragraph = []
            paragraph.append(line.strip())
        i += 1
    return blocks


def in_list(lines, i):
    """Whether the indented line i goes on with an item of a list."""
    while i >= 0 and (not lines[i].strip() or lines[i].startswith(" ")):
        i -= 1
    return i >= 0 and re.match(r"^([-*]|\d+\.) ", lines[i]) is not None
