"""What can be mutated: functions of C and OpenCL C, which ops reach them, and single changes to each.

Nothing here names an op or a kernel. AC_OP_LIST lists the ops; an op belongs to the backward pass or to an update if a
gradient rule, differentiation or the trainer names it, or if its own name says so. Its kernels are the functions that
can be reached from its entry, so that an op that is added later is also mutated. The sources are clang-formatted, which
is what the patterns rely on: a function's head starts in column 0, its body ends with a brace there, and binary
operators are between spaces."""
import bisect
import re
from pathlib import Path

# ---- functions ------------------------------------------------------------------------------------------------------


def blank(text, strings=True):
    """The text with comments, and strings if asked, replaced by as many spaces."""

    def spaces(match):
        kept = not strings and match.group()[0] in "\"'"
        return match.group() if kept else re.sub(r"[^\n]", " ", match.group())

    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", spaces, text, flags=re.S)


class Function:
    """A function, or a macro with parameters. Its body is text[begin:end]."""

    def __init__(self, path, name, head, text, begin, end):
        self.path, self.name, self.head, self.begin, self.end = path, name, head, begin, end
        body = blank(text, strings=False)[begin:end]
        self.strings = set(re.findall(r'"(\w+)"', re.sub(r'\(ac_cl_kernel\)\{"\w+"', "", body)))  # but files of kernels
        self.names = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"\n]*"|(->|\.)\s*\w+', " ", body)))  # no members


def functions_in(path, text):
    found = []
    clean = blank(text)
    lines = clean.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    i = 0
    while i < len(lines):
        macro = re.match(r"#define (\w+)\([^)]*\)", lines[i])
        if macro:
            last = i
            while lines[last].rstrip().endswith("\\"):
                last += 1
            found.append(Function(path, macro.group(1), "", text, starts[i] + macro.end(), starts[last + 1] - 1))
            i = last + 1
            continue
        if not re.match(r"[A-Za-z_]", lines[i]):
            i += 1
            continue
        first = i
        while i + 1 < len(lines) and not re.search(r"[;{}]\s*$", lines[i]):
            i += 1
        head = "\n".join(lines[first : i + 1])
        body_end = next((k for k in range(i, len(lines)) if lines[k].startswith("}")), i)
        names = [n for n in re.findall(r"(\w+)\(", head) if n not in ("WORK_GROUP", "__attribute__")]
        if head.rstrip().endswith("{") and names and "=" not in head and not head.startswith("typedef"):
            found.append(Function(path, names[0], head, text, starts[i] + len(lines[i]), starts[body_end]))
            i = body_end
        elif re.match(r"[^;]*\{\s*$", head):
            i = body_end
        i += 1
    return found


# ---- which ops reach a function -------------------------------------------------------------------------------------


UPDATES = ("update|step|statistics|scale|shares|window|known|whole|weight|accumulate|reduce|propose|report|norm|gradient|"
           "light|to_float|ask")
WHOLLY = re.compile(r"src/(observe/(scaler|plateau)|schedule/schedule|window/rates|run/losses|optimizer/\w+|"
                    r"ops/update/optimizer)\.c")


class Sources:
    """The tree's files and functions."""

    def __init__(self, root):
        self.root = Path(root)
        self.text, self.functions = {}, {}
        for pattern in ("src/backend/cpu/**/*.[ch]", "src/backend/opencl/**/*.c", "cl/**/*.cl", "cl/**/*.h", "src/ops/**/*.c",
                        "src/graph/differentiate.c", "src/run/*.c", "src/window/*.c", "src/observe/*.c",
                        "src/schedule/*.c", "src/optimizer/*.c"):
            for file in sorted(self.root.glob(pattern)):
                path = str(file.relative_to(self.root))
                self.text[path] = file.read_text()
                self.functions[path] = functions_in(path, self.text[path])
        self.ops = re.findall(r'X\((\w+), "', (self.root / "src/ops/list.h").read_text())
        self.update_ops = [op for path in self.text if path.startswith("src/ops/")
                           for op, desc in re.findall(r"ac_op_desc_(\w+) = \{(.*?)\n\};", self.text[path], re.S)
                           if ".phase = AC_PHASE_" in desc]
        self.family = {}
        for file in sorted((self.root / "tests/ops").glob("**/*.c")):
            for op in re.findall(r"\bop_reference_(\w+) =", file.read_text()):
                self.family[op] = file.stem

    def all_named(self, path, name):
        return [f for f in self.functions[path] if f.name == name]

    def named(self, path, name):
        return next(iter(self.all_named(path, name)), None)

    def rules(self):
        """Gradient rules and differentiation."""
        for path, functions in self.functions.items():
            for f in functions:
                if path.startswith("src/graph/") or (path.startswith("src/ops/") and "ac_differentiation" in f.head):
                    yield f

    def updates(self):
        """What the trainer computes between gradients and parameters, and the nodes that do."""
        for path, functions in self.functions.items():
            for f in functions:
                if WHOLLY.fullmatch(path) or (path in ("src/window/trainer.c", "src/window/update.c") and re.search(UPDATES, f.name)):
                    yield f

    def backward_ops(self):
        """Ops that run backward or in updates."""
        named = set()
        for f in list(self.rules()) + [f for p in self.functions if p.startswith(("src/run/", "src/window/", "src/optimizer/"))
                                       for f in self.functions[p]]:
            named |= {n[6:] for n in f.names if n.startswith("AC_OP_")}
        return [op for op in self.ops if op in named or op in self.update_ops or "gradient" in op]

    def cpu_kernels(self, ops):
        """{function: {file to compile: [op]}} of the CPU, without those that say how much room is needed."""
        entries, shared, headers = {}, {}, {}
        for path in self.functions:
            if not path.startswith("src/backend/cpu/"):
                continue
            for op, run in re.findall(r"AC_CPU_(?:KERNEL\(|ELEMENTWISE\()(\w+)(?:\) =\s+\{\s*\.run = |, )(\w+)", self.text[path]):
                entries[op] = (path, run)
            for f in self.functions[path]:
                if path.endswith(".h"):
                    headers.setdefault(f.name, f)
                elif "static" not in f.head and f.head:
                    shared.setdefault(f.name, f)

        def find(user, name):
            f = self.named(user, name) or headers.get(name) or shared.get(name)
            if f and re.search(r"/(cpu|blas|openblas\w*|split)\.c$", f.path):
                return []
            return [(f, f.path if f.path.endswith(".c") else user)] if f else []

        reached = self.closure(ops, entries, find)
        return {f: u for f, u in reached.items() if not re.search("workspace|scratch|room|staging|bytes", f.name)}

    def cl_kernels(self, ops):
        """{function: {file: [op]}} of OpenCL C, found from the names of kernels that the host's functions launch."""
        host, kernels, entries, steps = {}, {}, {}, []
        for path in self.functions:
            for f in self.functions[path]:
                if path.startswith("src/backend/opencl/") and "static" not in f.head:
                    host.setdefault(f.name, f)
                if path.startswith("cl/") and f.head.startswith("kernel"):
                    kernels.setdefault(f.name, []).append(f)
            for op, run in re.findall(r"ac_cl_op_(\w+) = \{\s*\.run = (\w+)", self.text[path]):
                entries[op] = (path, run)
            for op in re.findall(r'^AC_CL_STEP_OP\("\w+", (\w+),', self.text[path], re.M):
                steps += [(op, op), (op, f"{op}_each")]
        shared = {}
        for path in self.functions:
            if re.match(r"cl/.*\.h", path):
                for f in self.functions[path]:
                    shared.setdefault(f.name, []).append(f)

        def find(user, name):
            """Of each set of options."""
            if user.startswith("cl/"):
                return [(f, user) for f in self.all_named(user, name) or shared.get(name, [])]
            f = self.named(user, name) or host.get(name)
            return [(f, f.path)] if f else []

        result = {}

        def add(name, reaching):
            for kernel in kernels.get(name, []):
                entry = {op: (kernel.path, kernel.name) for op in reaching}
                for g, where in self.closure(reaching, entry, find).items():
                    for user, found in where.items():
                        known = result.setdefault(g, {}).setdefault(user, [])
                        known += [op for op in found if op not in known]

        for f, users in self.closure(ops, entries, find).items():
            for name in sorted(f.strings):
                add(name, sorted({op for ops_ in users.values() for op in ops_}))
        for op, name in steps:
            if op in ops:
                add(name, [op])
        return result

    def closure(self, ops, entries, find):
        reached = {}
        for op in ops:
            if op not in entries:
                continue
            path, name = entries[op]
            work = [(f, path) for f in self.all_named(path, name)]
            seen = set()
            while work:
                f, user = work.pop()
                if f is None or (id(f), user) in seen:
                    continue
                seen.add((id(f), user))
                reached.setdefault(f, {}).setdefault(user, []).append(op)
                work += [found for n in sorted(f.names) if n != f.name for found in find(user, n)]
        return reached


# ---- single changes -------------------------------------------------------------------------------------------------


class Mutation:
    """text[start:end] of the file becomes `to`."""

    def __init__(self, kind, start, end, to):
        self.kind, self.start, self.end, self.to = kind, start, end, to


TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*|"
                   r"<<=|>>=|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|\S")
SWAPPED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
           "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
           "<<": ">>", ">>": "<<"}
KINDS = {**dict.fromkeys(("+", "-", "+=", "-="), "sign"), **dict.fromkeys(("*", "/", "%", "*=", "/="), "product"),
         **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "compare"), "&&": "logic", "||": "logic", "<<": "shift",
         ">>": "shift"}
OTHER_NAME = {"ac_min": "ac_max", "ac_max": "ac_min", "min": "max", "max": "min", "fmax": "fmin", "fmaxf": "fminf",
              "fmin": "fmax", "fminf": "fmaxf", "true": "false", "false": "true"}
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "|=", "&=", "^=")
ENDS = {",", ";", "?", ":", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "|", "&", "^", "<<", ">>", *ASSIGNMENTS}
TYPES = re.compile(r"(const|local|static|float|double|int|bool|uint\w*|int\w*_t|size_t|long|vector|storage|char|lanes|"
                   r"struct|ac_\w+)$")
BEFORE_NUMBERS = ("=", "+", "-", "*", "<", ">", "==", "<=", ">=", "?", ":", ",")
# Which argument of calls only says how work is shared out.
WEIGHTS = (("ac_cpu_for(_floats)?$", 3), ("ac_cpu_for_planes$", 2), ("ac_cpu_share$", 1))
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


class Body:
    """The tokens of a function's body, and the changes that can be made to them."""

    def __init__(self, function, text):
        clean = blank(text)
        if function.head:  # directives are not code; a macro's continuation is
            clean = re.sub(r"(?m)^#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), clean)
        else:
            clean = clean.replace("\\\n", " \n")
        self.function, self.text, self.clean = function, text, clean
        self.rule = "ac_differentiation" in function.head
        self.tokens = [(m.start(), m.end(), m.group()) for m in TOKEN.finditer(clean, function.begin, function.end)]
        self.match, stack = {}, []
        for i, (_, _, t) in enumerate(self.tokens):
            if t in OPEN:
                stack.append(i)
            elif t in CLOSE and stack:
                self.match[i] = stack[-1]
                self.match[stack.pop()] = i
        self.skipped, self.strides = self.loop_heads()
        self.weights = [self.arguments(i + 1)[at] for i, (_, _, t) in enumerate(self.tokens) for name, at in WEIGHTS
                        if re.match(name, t) and self.t(i + 1) == "(" and i + 1 in self.match]

    def t(self, i):
        return self.tokens[i][2] if 0 <= i < len(self.tokens) else ""

    def binary(self, i):
        start, end, _ = self.tokens[i]
        before = self.t(i - 1)
        return (re.match(r"[\w)\]]", before[-1:] or " ") and before not in ("return", "case") and
                self.clean[start - 1].isspace() and self.clean[end : end + 1].isspace())

    def loop_heads(self):
        """Tokens of the last part of loops' heads, where a change hangs and says nothing, and of the conditions of
        loops in strides, where one round more is empty or one round less is left to the loop after it."""
        steps, strides = set(), set()
        for i, (_, _, t) in enumerate(self.tokens):
            if t == "for" and i + 1 in self.match:
                end = self.match[i + 1]
                semicolons = [k for k in range(i, end) if self.t(k) == ";"]
                if len(semicolons) == 2:
                    steps |= set(range(semicolons[1], end))
                    if semicolons[1] + 1 == end or self.t(semicolons[1] + 2) == "+=":
                        strides |= set(range(*semicolons))
        return steps, strides

    def right(self, i, ends):
        """The first token from i on that ends the expression there."""
        while i < len(self.tokens):
            t = self.t(i)
            if t in CLOSE or (t in ends and (t not in "+-*/%&" or self.binary(i))):
                return i
            i = self.match[i] + 1 if t in OPEN and i in self.match else i + 1
        return i

    def left(self, i, ends):
        """The token before the expression that ends before i."""
        i -= 1
        while i >= 0:
            t = self.t(i)
            if t in OPEN or t in ends:
                return i
            i = self.match[i] - 1 if t in CLOSE and i in self.match else i - 1
        return i

    def source(self, first, last):
        """The text of tokens [first, last)."""
        return self.text[self.tokens[first][0] : self.tokens[last - 1][1]]

    def wrapped(self, kind, first, last, form):
        if first < last and self.t(first) != "{" and not (kind == "factor" and self.source(first, last) == "0"):
            yield Mutation(kind, self.tokens[first][0], self.tokens[last - 1][1], form % self.source(first, last))

    def condition(self, first, last):
        """An `add` is ignored or always taken, any other condition is turned round."""
        if re.search(r"\badd", self.source(first, last)):
            yield from (Mutation("add", self.tokens[first][0], self.tokens[last - 1][1], to) for to in ("1", "0"))
        else:
            yield from self.wrapped("condition", first, last, "!(%s)")

    def arguments(self, i):
        """(first, last) of each argument of the call with its parenthesis at token i."""
        end, first, result = self.match[i], i + 1, []
        while first < end:
            last = self.right(first, {","})
            result.append((first, last))
            first = last + 1
        return result

    def declares(self, i):
        """Whether token i is left of any value in a declaration."""
        start = self.left(i, {";", "}"}) + 1
        if not TYPES.match(self.t(start)):
            return False
        last = max([k for k in range(start, i) if self.t(k) == ","], default=start)
        return all(self.t(k) != "=" for k in range(last, i))

    def is_shape(self, i):
        """Whether the bracket at token i picks an operand only to see its shape or dtype, which others share."""
        after = self.t(self.match[i] + 2)
        return (self.t(i - 1) in ("in", "out") and self.t(i - 2) == "->" and
                (self.t(i - 4) == "&" and self.t(i - 6).startswith("ac_") or after in ("dim", "dtype", "rank") or
                 (after == "count" and self.t(i - 1) == "in")))

    def in_memset(self, i):
        return self.t(self.left(i, {";", "}"}) - 1) == "memset"

    def operators(self, i):
        start, end, t = self.tokens[i]
        if t in SWAPPED and self.binary(i):
            if not (t in ("<", "<=") and i in self.strides):
                yield Mutation(KINDS[t], start, end, SWAPPED[t])
        if t in ("+=", "|=") and self.binary(i):
            yield Mutation("overwrite", start, end, "=")
        if t in "+-*/" and self.binary(i):
            ends = ENDS | {"+", "-"} | ({"*", "/", "%"} if t in "*/" else set())
            last = self.right(i + 1, ends)
            yield Mutation("drop", start, self.tokens[last - 1][1], "")
        if t in "-!" and not self.binary(i) and not self.clean[end : end + 1].isspace():
            yield Mutation("negation", start, end, "")

    def operands(self, i):
        start, end, t = self.tokens[i]
        before, after = self.t(i - 1), self.t(i + 1)
        if t == "memset" and self.t(i + 1) == "(":
            (first, last) = self.arguments(i + 1)[1]
            yield Mutation("literal", self.tokens[first][0], self.tokens[last - 1][1], "64")  # floats of 3
        if t in OTHER_NAME and not self.declares(i):
            yield Mutation("name", start, end, OTHER_NAME[t])
        if re.match(r"(\d+\.\d*|\.\d+)", t):
            number = re.sub(r"[fF]$", "", t)
            yield Mutation("literal", start, end, f"(1 + {t})" if float(number) == 0 else f"(2 * {t})")
        elif re.match(r"\d+[uUlL]*$", t) and (before in BEFORE_NUMBERS or after in ("+", "-", "*")) and not (
                self.in_memset(i) or self.declares(i) or (self.rule and before == ",")):
            yield Mutation("literal", start, end, str(int(re.match(r"\d+", t).group()) + 1))
        if t == "[" and re.match(r"\w|\]", before[-1:] or " ") and not self.declares(i) and i in self.match and not (
                self.is_shape(i)):
            yield from self.wrapped("index", i + 1, self.match[i], "(%s) + 1")

    def calls(self, i):
        t = self.t(i)
        if self.t(i + 1) != "(" or i + 1 not in self.match:
            return
        if t == "if":
            yield from self.condition(i + 2, self.match[i + 1])
        arguments = self.arguments(i + 1)
        if t in ("load", "store") and len(arguments) > 1:
            yield from self.wrapped("index", *arguments[1], "(%s) + 1")
        if t == "store" and len(arguments) == 3:
            yield from self.wrapped("factor", *arguments[2], "2 * (%s)")
        if t in ("fma", "fmaf") and len(arguments) == 3:
            yield from self.wrapped("sign", *arguments[0], "-(%s)")
            yield from self.wrapped("drop", *arguments[2], "0 * (%s)")

    def assignments(self, i):
        t = self.t(i)
        if t == "?":
            yield from self.condition(self.left(i, {",", ";", "?", ":", "return", *ASSIGNMENTS}) + 1, i)
        if t in ("=", "+=", "-="):
            first = self.left(i, {";", "}", ","}) + 1
            declared = re.match(r"(const )?(float|double|vector)\b", self.source(self.left(i, {";", "}"}) + 1, i))
            stored = self.t(i - 1) == "]" or self.t(first) == "*"
            if stored or (declared and self.t(first) != "*"):
                yield from self.wrapped("factor", i + 1, self.right(i + 1, {",", ";"}), "2 * (%s)")
        if t == "return" and re.search(r"\b(float|double)\b[^*(]*\(", self.function.head):
            yield from self.wrapped("factor", i + 1, self.right(i + 1, {";"}), "2 * (%s)")

    def emissions(self, i):
        """Of gradient rules: operands in another order, one less, ops that are not emitted."""
        start, _, t = self.tokens[i]
        if t == "{" and self.t(i - 1) == "=" and self.t(i - 2) == "]" and i in self.match:
            parts = self.arguments(i)
            for a, b in zip(parts, parts[1:]):
                to = self.source(*b) + ", " + self.source(*a)
                yield Mutation("order", self.tokens[a[0]][0], self.tokens[b[1] - 1][1], to)
        if t == "AC_TRY" and self.t(i + 1) == "(":
            yield Mutation("statement", start, self.tokens[self.match[i + 1]][1], "")
        if t.isdigit() and int(t) > 0 and self.t(i - 1) == "," and self.t(i + 1) in (",", ")"):
            yield Mutation("count", start, start + len(t), str(int(t) - 1))

    def is_speed(self, m):
        """Whether the change only concerns how work is cut into blocks or shared out."""
        line = self.text[self.text.rfind("\n", 0, m.start) + 1 : self.text.find("\n", m.end)]
        if re.search(r"context->(serial|threads)|\benum \{", line):
            return True
        return any(m.start < self.tokens[last - 1][1] and m.end > self.tokens[first][0] for first, last in self.weights)

    def mutations(self):
        found = {}
        for i in range(len(self.tokens)):
            if i in self.skipped:
                continue
            sources = [self.operators, self.operands, self.calls, self.assignments]
            for source in sources + [self.emissions] * self.rule:
                for m in source(i):
                    if self.text[m.start : m.end] != m.to and not self.is_speed(m):
                        found.setdefault((m.start, m.end, m.to), m)
        return list(found.values())


class Site:
    """A mutation of a function, described so that its identity survives changes elsewhere in the file."""

    def __init__(self, function, text, mutation, occurrence):
        self.function, self.mutation, self.path, self.occurrence = function, mutation, function.path, occurrence
        first = text.rfind("\n", 0, mutation.start) + 1
        last = text.find("\n", mutation.end)
        last = len(text) if last < 0 else last
        flat = lambda s: " ".join(s.split())
        self.before = flat(text[first:last])
        self.after = flat(text[first : mutation.start] + mutation.to + text[mutation.end : last])
        self.line = text.count("\n", 0, mutation.start) + 1
        self.key = (self.path, function.name, self.before, self.after, occurrence)

    def apply(self, text):
        return text[: self.mutation.start] + self.mutation.to + text[self.mutation.end :]


def sites_of(function, text):
    seen, sites = {}, []
    for m in sorted(Body(function, text).mutations(), key=lambda m: (m.start, m.end, m.to)):
        site = Site(function, text, m, 0)
        occurrence = seen.get(site.key, 0)
        seen[site.key] = occurrence + 1
        sites.append(Site(function, text, m, occurrence))
    return sites
