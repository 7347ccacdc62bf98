#!/usr/bin/env python3
"""Writes docs/reference/api from the public headers, through Doxygen.

    tools/api_reference.py           writes the pages anew
    tools/api_reference.py --check   fails if a header has something without a comment, or if the
                                     pages are not those that the headers give

Each header becomes a page, and README.md the list of all functions by task. A section of a page is
a comment such as /* ---- reading ---- */ of the header. What comes after «may still change» is said
to change, in a header as in a type. The pages link to the examples and to other
pages of docs/ that use a function, so they change with those as well."""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = os.path.join(ROOT, "include", "accrue")
PAGES = os.path.join("docs", "reference", "api")
WIDTH = 110
MOST_USES = 4
NAME = re.compile(r"(?<!\")\b(?:ac_[a-z0-9_]+|AC_[A-Z0-9_]+)\b(?:\.[a-z][a-z0-9_]*)*")

# What a reader looks for; a section of a header without a name of its own is "other".
TITLES = {
    "adapter.h": "Adapters",
    "attention.h": "Attention",
    "base.h": "Errors, types, hooks", "batches.h": "Schedules of batches", "bench.h": "Benchmarks",
    "clipping.h": "Clipping", "convolution.h": "Convolutions and pools", "dataset.h": "Datasets", "device.h": "Devices",
    "evaluation.h": "Evaluation", "export.h": "Models for other programs", "fit.h": "The fit loop", "format.h": "Formats of files",
    "generate.h": "Text from a model",
    "gguf.h": "GGUF files",
    "graph.h": "Models", "image.h": "Images of another size", "layers.h": "Layers", "learner.h": "Learners",
    "loss.h": "Losses", "loss_scaling.h": "Loss scaling", "metric.h": "Metrics",
    "model_file.h": "Model files", "movement.h": "Movement", "norm.h": "Norms",
    "optimizer.h": "Optimizers", "parameter.h": "Parameters of a trainer",
    "parameter_group.h": "Groups of parameters", "pictures.h": "Pictures", "masks.h": "Masks and boxes", "plan.h": "Plans",
    "pointwise.h": "Functions of elements",
    "custom_op.h": "Ops of your own", "ranks.h": "Ranks", "range_test.h": "Range test of the rate",
    "recurrent.h": "Recurrent layers", "reduction.h": "Reductions",
    "results.h": "Results of a trainer",
    "schedule.h": "Learning rates",
    "session.h": "Prediction and evaluation", "spike.h": "Spikes", "state_file.h": "State files",
    "tokenizer.h": "Tokenizers",
    "chat.h": "Chats",
    "model.h": "Language models",
    "storage.h": "How values are stored", "trainer.h": "Trainers", "watch.h": "Watching a run",
    "window.h": "Windows and updates", "accrue.h": "All headers",
}


# ---- Doxygen -------------------------------------------------------------------------------------

def run_doxygen(work):
    """Doxygen's XML of all headers. What is not documented ends the program."""
    with open(os.path.join(ROOT, PAGES, "Doxyfile.in"), encoding="utf-8") as file:
        settings = file.read()
    for key, value in {"PROJECT_VERSION": "", "PROJECT_SOURCE_DIR": ROOT, "DOXYGEN_OUTPUT": work,
                       "DOXYGEN_HTML": "NO", "DOXYGEN_XML": "YES",
                       "DOXYGEN_BRIEF": "NO"}.items():
        settings = settings.replace("@" + key + "@", value)
    result = subprocess.run([os.environ.get("DOXYGEN", "doxygen"), "-"], input=settings, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode or result.stdout.strip():
        sys.exit("Doxygen has complaints about the public headers. Every function, type, member, "
                 "enumerator and macro needs a comment /** ... */:\n" + result.stdout)
    return os.path.join(work, "xml")


class Item:
    """A function, type, macro or enum, with its members."""

    def __init__(self, kind, name, line, declaration, text, members=()):
        self.kind, self.name, self.line = kind, name, line
        self.declaration, self.text, self.members = declaration, text, list(members)
        self.page = self.section = ""
        self.unstable = 0  # how many members, the last ones, may still change


def plain(element):
    """The text of an element without markup."""
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""


def inline(element):
    """The text of a paragraph in Markdown. What is not text begins a block of its own."""
    text = element.text or ""
    for child in element:
        if child.tag == "computeroutput":
            text += "`" + plain(child) + "`"
        elif child.tag == "emphasis":
            text += "*" + inline(child) + "*"
        elif child.tag in BLOCKS:
            text += "\0"
        else:
            text += inline(child) if len(child) or child.text else SYMBOLS.get(child.tag, "")
        text += child.tail or ""
    return text


BLOCKS = ("verbatim", "programlisting", "itemizedlist", "orderedlist", "parameterlist", "simplesect")
SYMBOLS = {"ndash": "--", "mdash": "---", "nonbreakablespace": " "}


def code_of(element):
    """The lines of a block of code."""
    if element.tag == "verbatim":
        return element.text.strip("\n").split("\n")
    lines = []
    for line in element.iter("codeline"):
        text = ""
        for part in line.iter():
            text += " " if part.tag == "sp" else part.text or ""
            if part is not line:
                text += part.tail or ""
        lines.append(text.rstrip())
    return lines


def blocks_of(description):
    """A description as a list of blocks: ("text", str), ("code", lines) or ("list", strings)."""
    blocks = []
    for para in description.iter("para") if description is not None else ():
        if para in INNER:
            continue
        children = [child for child in para if child.tag in BLOCKS]
        parts = inline(para).split("\0")
        for i, part in enumerate(parts):
            text = re.sub(r"\s+", " ", part).strip()
            if text:
                blocks.append(("text", text))
            if i == len(children):
                continue
            child = children[i]
            INNER.update(child.iter("para"))
            if child.tag in ("verbatim", "programlisting"):
                blocks.append(("code", code_of(child)))
            elif child.tag == "parameterlist":
                blocks.append(("list", ["`%s`: %s" % (plain(one.find("parameternamelist")),
                                                      sentence(one.find("parameterdescription")))
                                        for one in child.findall("parameteritem")]))
            else:
                blocks.append(("list", [sentence(one) for one in child.iter("listitem")]))
    return blocks


SOURCE = {}    # the headers by name
INNER = set()  # paragraphs that a list has taken


def sentence(element):
    return re.sub(r"\s+", " ", " ".join(inline(para) for para in element.iter("para"))).strip()


def text_of(element):
    """The whole description of something. Doxygen splits no first sentence off for these pages."""
    return blocks_of(element.find("detaileddescription"))


def tidy(text):
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\* (?=\w|const)", "*", text.replace(" *", " *")).replace("( ", "(")


def declare(kind, name):
    """`int64_t batch`, `char id[32]`, `void (*close)(void *user)`."""
    base, arguments = tidy(kind[0]), tidy(kind[1])
    if base.endswith("(*"):
        return re.sub(r"(?<=\w)\(\*$", " (*", base) + name + arguments
    return base + ("" if base.endswith("*") else " ") + name + arguments


def enum_of(element):
    members = [("`%s`" % (plain(one.find("name")) + value_of(one)), text_of(one))
               for one in element.findall("enumvalue")]
    name = plain(element.find("name"))
    anonymous = not name or name.startswith("@")
    if anonymous:
        name = plain(element.find("enumvalue").find("name"))
    return Item("enum", name, line_of(element), "" if anonymous else "enum " + name,
                text_of(element), members)


def value_of(element):
    value = tidy(plain(element.find("initializer")))
    return " " + value if value else ""


def line_of(element):
    location = element.find("location")
    return int(location.get("declline") or location.get("line"))


def item_of(element):
    kind, name = element.get("kind"), plain(element.find("name"))
    kinds = plain(element.find("type")), plain(element.find("argsstring"))
    if kind == "enum":
        return enum_of(element)
    if kind == "define":
        arguments = [plain(one.find("defname")) for one in element.findall("param")]
        value = tidy(plain(element.find("initializer")))
        declaration = "#define %s%s" % (name, "(%s)" % ", ".join(arguments) if arguments else "")
        if value and len(value) < 40 and not arguments:
            declaration += " " + value
        return Item("macro", name, line_of(element), declaration, text_of(element))
    if kind == "typedef":
        return Item("type", name, line_of(element), declare(kinds, name).join(("typedef ", ";"))
                    if not kinds[0].startswith("typedef") else "", text_of(element))
    return Item("function", name, line_of(element), declare(kinds, name) + ";", text_of(element))


def struct_of(path):
    compound = ElementTree.parse(path).getroot().find("compounddef")
    members = []
    for one in compound.iter("memberdef"):
        kinds = plain(one.find("type")), plain(one.find("argsstring"))
        members.append(("`%s`" % declare(kinds, plain(one.find("name"))), text_of(one)))
    name = plain(compound.find("compoundname"))
    return Item("struct", name, line_of(compound), "struct " + name, text_of(compound), members)


def read_header(xml, name):
    """The text of a header and its items in the order of the source."""
    path = os.path.join(xml, name.replace("_", "__").replace(".h", "_8h") + ".xml")
    compound = ElementTree.parse(path).getroot().find("compounddef")
    items = [struct_of(os.path.join(xml, one.get("refid") + ".xml"))
             for one in compound.findall("innerclass")]
    names = {item.name for item in items}
    for element in compound.iter("memberdef"):
        item = item_of(element)
        if item.name in names or item.name in INTERNAL:
            continue  # typedef struct x x;
        names.add(item.name)
        items.append(item)
    items.sort(key=lambda item: item.line)
    sections, block = [(0, "")], ""
    for number, line in enumerate(SOURCE[name].split("\n"), 1):
        match = re.match(r"/\* ---- (.*?) -*- \*/", line)
        if match:
            title = block + match.group(1)
            sections.append((number, title))
            block = block or (UNSTABLE + ": " if title == UNSTABLE else "")
    for item in items:
        item.page = page_of(name)
        item.section = [title for number, title in sections if number < item.line][-1]
        item.unstable = members_that_may_change(SOURCE[name], item)
    return text_of(compound), items


INTERNAL = {"AC_API", "AC_STATUS_ENUM"}
UNSTABLE = "may still change"


def members_that_may_change(source, item):
    """Where these begin in the list of a type's members: after the heading within the type."""
    body = re.search(r"^typedef (?:struct|enum) %s \{\n(.*?)^\}" % item.name, source, re.S | re.M)
    parts = re.split(r"^  /\* ---- %s -*- \*/\n" % UNSTABLE, body.group(1), flags=re.M) if body else []
    return len(re.findall(r"\bAC_UNSTABLE\(\w+\)(?! ?\*?AC_)", parts[1])) if len(parts) > 1 else 0


# ---- Markdown ------------------------------------------------------------------------------------

def page_of(header):
    return header.replace(".h", ".md")


def anchor_of(text):
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


class Writer:
    """Turns blocks into lines, with a link where a name first comes up."""

    def __init__(self, where, page):
        self.where, self.page, self.linked = where, page, set()

    def begin(self, *names):
        self.linked = set(names)

    def name(self, match):
        word = match.group(0)
        whole = word.split(".")[0]
        item = self.where.get(whole)
        if not item or word.endswith("_"):
            return word
        if item.name in self.linked:
            return "`%s`" % word
        self.linked.add(item.name)
        page = "" if item.page == self.page else item.page
        return "[`%s`](%s#%s)" % (word, page, anchor_of(item.name))

    def markdown(self, text):
        """Code stays as it is; elsewhere names become links, and what Markdown reads is escaped."""
        parts = re.split(r"(`[^`]*`)", text)
        for i in range(0, len(parts), 2):
            part = re.sub(r"\bdocs/((?:[\w-]+/)*[\w-]+\.md)",
                          lambda m: "[%s](%s)" % (m.group(0), os.path.relpath(
                              os.path.join("docs", m.group(1)), PAGES)), parts[i])
            part = re.sub(r"(?<!\w)CHANGELOG\.md", "[CHANGELOG.md](%s)" % os.path.relpath(
                "CHANGELOG.md", PAGES), part)
            part = re.sub(r"<(?=[a-zA-Z/!])", "&lt;", part)
            part = re.sub(r"(?<=\w)\*(?=\w)", r"\\*", part)
            parts[i] = NAME.sub(self.name, part)
        return "".join(parts)

    def lines(self, blocks, indent=""):
        lines = []
        for kind, content in blocks:
            if lines:
                lines.append("")
            if kind == "code":
                lines += [indent + "    " + line if line else "" for line in content]
            elif kind == "list":
                for one in content:
                    lines += wrap("- " + self.markdown(one), indent, indent + "  ")
            else:
                lines += wrap(self.markdown(content), indent, indent)
        return lines


def wrap(text, first, indent):
    """Breaks lines at spaces, but not within links or code, nor before what would begin a list."""
    words, lines, line = [], [], first
    for word in re.findall(r"(?:`[^`]*`|\[[^\[\]]*\]\([^)\s]*\)|\S)+", text):
        words.append(word)
    for word in words:
        starts = re.match(r"[-+*#>=]|\d+[.)]$", word)
        if len(line) + 1 + len(word) > WIDTH and line.strip() and not starts:
            lines.append(line)
            line = indent + word
        else:
            line += word if not line.strip() else " " + word
    return lines + [line]


def uses_of_files():
    """Name -> the examples and pages that mention it, examples first."""
    uses = {}
    for folder, endings in (("examples", (".c", ".cpp")), ("docs", (".md",))):
        for path, folders, names in sorted(os.walk(os.path.join(ROOT, folder))):
            folders.sort()
            if os.path.join(ROOT, PAGES) == path or "/build" in path[len(ROOT):]:
                continue
            for name in sorted(names):
                if not name.endswith(endings):
                    continue
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    found = set(re.findall(r"\bac_[a-z0-9_]+\b", file.read()))
                for one in found:
                    uses.setdefault(one, []).append(
                        os.path.relpath(os.path.join(path, name), ROOT))
    return uses


def title_of_use(path):
    if not path.endswith(".md"):
        return os.path.relpath(path, "examples")
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def write_uses(paths):
    """Examples and pages that explain, half of each if there are enough."""
    ranks = ("docs/cookbook", "docs/guide", "docs/start")
    pages = sorted((path for path in paths if path.startswith("docs/")), key=lambda path: next(
        (i for i, folder in enumerate(ranks) if path.startswith(folder)), len(ranks)))
    examples = [path for path in paths if not path.startswith("docs/")]
    shown = max(MOST_USES // 2, MOST_USES - len(pages))
    paths = examples[:shown] + pages[:MOST_USES - len(examples[:shown])]
    links = ["[%s](%s)" % (title_of_use(path), os.path.relpath(path, PAGES)) for path in paths]
    return wrap("Used in: " + ", ".join(links) + ".", "", "")


GENERATED = "<!-- Written by tools/api_reference.py from include/accrue. Change the header, not this page. -->"


def write_page(header, text, items, where, uses):
    writer = Writer(where, page_of(header))
    lines = ["# %s" % header, "", GENERATED, "", "%s. [All functions by task](README.md)." % TITLES[
        header], "", "    #include <accrue/%s>" % header, ""]
    writer.begin()
    lines += writer.lines(text)
    titles = []
    for item in items:
        if item.section and item.section not in titles:
            titles.append(item.section)
    section = ""
    for item in items:
        if item.section != section:
            section = item.section
            lines += ["", "## " + section[0].upper() + section[1:]]
        elif item is items[0]:
            lines += ["", "## " + TITLES[header]]
        lines += ["", "### " + item.name, ""]
        if item.kind in ("function", "type", "macro") and item.declaration:
            lines += ["```c", *fold_declaration(item.declaration), "```", ""]
        elif item.kind in ("struct", "enum") and item.declaration:
            lines += ["`%s`" % item.declaration, ""]
        writer.begin(item.name)
        lines += writer.lines(item.text)
        if item.members:
            lines.append("")
        for i, (name, blocks) in enumerate(item.members):
            if i + item.unstable == len(item.members):
                lines += ["", "May still change:", ""]
            own = writer.lines(blocks, "  ")
            first = wrap("- " + name + ": " + writer_first(own), "", "  ") if own else ["- " + name]
            lines += first + rest_of(own)
        if item.kind in ("function", "struct") and item.name in uses:
            lines += [""] + write_uses(uses[item.name])
    return "\n".join(lines) + "\n"


def writer_first(lines):
    """The first paragraph as one line."""
    end = lines.index("") if "" in lines else len(lines)
    return " ".join(line.strip() for line in lines[:end])


def rest_of(lines):
    return lines[lines.index(""):] if "" in lines else []


def fold_declaration(text):
    """At most WIDTH columns, broken after commas."""
    if len(text) <= WIDTH or "(" not in text:
        return [text]
    at = text.index("(*") if "(*" in text and text.startswith("typedef") else -1
    column = text.index("(", text.index(")", at) if at >= 0 else 0) + 1
    lines, line = [], ""
    for word in re.split(r"(?<=,) ", text):
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = " " * column + word
        else:
            line = line + " " + word if line else word
    return lines + [line]


def write_index(headers, where):
    writer = Writer(where, "README.md")
    lines = ["# The C API", "", GENERATED, "",
             "Every function, type, member and macro of the public headers. A program includes all of them with",
             "`#include <accrue/accrue.h>`. The rules for arguments, errors and descriptions are in [base.h](base.md).",
             "What may change in later versions is in [Compatibility](../compatibility.md).", "",
             "The same as HTML, in `docs/html` of the build folder: `cmake --build --preset release --target docs`.", "",
             "This is the shortest way from a model to training:", "",
             "    device -> graph -> plan -> trainer -> ac_fit", "",
             "[First model in C](../../start/first-model.md) goes this way, and",
             "[The C API by task](../../cookbook/c-tasks.md) shows parts of it.", "",
             "| header | what it is for |", "|---|---|"]
    for header, (text, _) in headers.items():
        writer.begin("none")
        first = first_sentence(text[0][1])
        lines.append("| [%s](%s) | %s |" % (header, page_of(header), writer.markdown(first)))
    for header, (_, items) in headers.items():
        functions = [item for item in items if item.kind == "function"]
        if not functions:
            continue
        lines += ["", "## " + TITLES[header], ""]
        section = ""
        for item in functions:
            if item.section != section:
                section = item.section
                lines += ([""] if lines[-1] else []) + [
                    "%s:" % (section[0].upper() + section[1:]), ""]
            writer.begin(*where)
            lines += wrap("- [`%s`](%s#%s): %s" % (item.name, item.page, anchor_of(item.name),
                                                   first_sentence(writer.markdown(item.text[0][1]))),
                          "", "  ")
    return "\n".join(lines) + "\n"


def first_sentence(text):
    match = re.match(r"(.*?\w[^.\w]*\.)(?: (?=[A-Z*`0-9\[]|ac_)|$)", text)
    return match.group(1) if match else text


# ---- all -----------------------------------------------------------------------------------------

def make_pages():
    names = re.findall(r"#include <accrue/(\w+\.h)>", SOURCE["accrue.h"])
    with tempfile.TemporaryDirectory() as work:
        xml = run_doxygen(work)
        headers = {name: read_header(xml, name) for name in names}
    headers["accrue.h"] = accrue_text(), []
    where = {}
    for _, items in headers.values():
        for item in items:
            where[item.name] = item
            for member, _ in item.members if item.kind == "enum" else ():
                where[member.strip("`").split(" ")[0]] = item
    uses = uses_of_files()
    pages = {page_of(name): write_page(name, text, items, where, uses)
             for name, (text, items) in headers.items()}
    pages["README.md"] = write_index(headers, where)
    return pages


def accrue_text():
    comment = SOURCE["accrue.h"].split("*/")[0].split("@file")[1]
    comment = "\n".join(re.sub(r"^ \* ?", "", line) for line in comment.split("\n"))
    return [("text", re.sub(r"\s+", " ", one).strip()) for one in comment.split("\n\n")]


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    for name in os.listdir(HEADERS):
        with open(os.path.join(HEADERS, name), encoding="utf-8") as file:
            SOURCE[name] = file.read()
    for name in SOURCE:
        if name not in TITLES:
            sys.exit("%s has no title; add one to TITLES of tools/api_reference.py" % name)
    pages, folder, wrong = make_pages(), os.path.join(ROOT, PAGES), []
    there = {name for name in os.listdir(folder) if name.endswith(".md")}
    for name in sorted(there | set(pages)):
        path, old = os.path.join(folder, name), None
        if name in there:
            with open(path, encoding="utf-8") as file:
                old = file.read()
        if old == pages.get(name):
            continue
        wrong.append(name)
        if arguments:
            continue
        if name not in pages:
            os.remove(path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(pages[name])
    if arguments and wrong:
        sys.exit("%s of %s: not what the headers, the examples and docs/ give today. Run "
                 "tools/api_reference.py and commit what it writes." % (", ".join(wrong), PAGES))


main(sys.argv[1:])
