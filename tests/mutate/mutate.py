#!/usr/bin/env python3
"""Changes one sign, index, factor, condition or operand at a time in what computes gradients and updates, and shows
that a test fails for each: what no test notices is printed as survived. Run by hand:

    tests/mutate/mutate.py                          # at most 8 mutants of each function, on the CPU and on OpenCL
    tests/mutate/mutate.py --max-per-kernel 0       # all of them; takes hours
    tests/mutate/mutate.py --op conv2d_weight_gradient --group cpu
    tests/mutate/mutate.py --files 'cl/convolution/pool2d.cl' --again survived
    tests/mutate/mutate.py --equivalent             # what equivalent.txt excuses, and nothing else

Groups: cpu and cl are kernels, rules are the gradient rules of ops and differentiation, trainer is the update's
arithmetic and the nodes it runs. Which functions and which changes is found by pattern (sites.py). The tree is copied
into the work folder and built there once; a mutant is one compiled file that is linked before the library, and runs the
families of the ops that reach it, then all that the list of runs below has. The tree itself is never written to. Results
go to results.jsonl in the work folder, a line a mutant, and a mutant that is listed there is not run again.

A mutant is killed (a test failed, crashed or hung), survived, does not compile, or is the same (the compiler makes the
same code of it for every instruction set). What equivalent.txt lists is left out: it says for each why no result can
change, and a test that kills one of these proves it wrong. A mutant that only lets threads race may survive, and be
killed when it is run again. Needs what building the tests needs, and ninja. Exit status: 0 if nothing survived, 1 if
something did, 2 if the tests fail without a mutant; with --equivalent 0 if nothing was killed and every entry of the
list is some mutant's."""
import argparse
import collections
import concurrent.futures
import fcntl
import fnmatch
import hashlib
import json
import os
import queue
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import sites as mutants  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("CMakeLists.txt", "CMakePresets.json", "src", "include", "cl", "docs", "tests", "tools", "examples")
GROUPS = ("cpu", "cl", "rules", "trainer")

# Runs in this order until one fails: arguments of the program before the families, and its environment.
QUIET = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2"}
CPU = {**QUIET, "ACCRUE_TEST_DEVICES": "cpu", "OCL_ICD_VENDORS": "/dev/null/none"}
RUNS = {
    "cpu": [("--reduced", CPU), ("", CPU), ("", {**CPU, "ACCRUE_CPU_STREAM": "1"}),
            ("", {**CPU, "OMP_NUM_THREADS": "5", "ACCRUE_CPU_SERIAL": "0"}), ("", {**CPU, "OMP_NUM_THREADS": "1"}),
            ("", {**CPU, "OMP_NUM_THREADS": "6", "OMP_THREAD_LIMIT": "2"})],
    "cl": [("--reduced", {"ACCRUE_CLBLAST": "0"}), ("--reduced", {"ACCRUE_CLBLAST": "0", "ACCRUE_OPENCL_CPU": "0"}),
           ("", {"ACCRUE_CLBLAST": "0"})],
}
# Of families that reach a shared function, those that are run: PoCL compiles every kernel anew.
MOST_FAMILIES = {"cpu": 8, "cl": 4}
# Further tests of their own that some kernels have.
UNITS = {"src/backend/cpu/shared/blocks.c": ("cpu_blocks", "cpu_stream"), "src/backend/cpu/shared/stream.h": ("cpu_stream",),
         "cl/product/unit_gemm.cl": ("opencl_units", "opencl_gemm"), "cl/update/optimizer.cl": ("opencl_joined",),
         "cl/update/lion.cl": ("opencl_joined",), "cl/update/parameter.h": ("opencl_joined",)}
# Tests of whole graphs and of training, on the CPU.
PROGRAMS = {
    "rules": ("gradients", "gpt2", "norms", "batch_norm", "training", "precision", "graph", "invariants"),
    "trainer": ("scaler", "schedules", "range_test", "update", "losses", "losses_refused", "losses_extreme", "loss_scaling", "batch_norm",
                "whole_windows", "norms", "fit", "precision", "numerics", "gradients", "invariants", "training",
                "waiting", "out_of_memory", "bench"),
}

# ---- the tree that is built -----------------------------------------------------------------------------------------


def copy_tree(to):
    """Copies what differs, so that a second call builds little."""
    wanted = set()
    for name in COPIED:
        path = ROOT / name
        for file in [path] if path.is_file() else [f for f in sorted(path.rglob("*")) if f.is_file()]:
            relative = file.relative_to(ROOT)
            if "__pycache__" in relative.parts:
                continue
            wanted.add(relative)
            target, data = to / relative, file.read_bytes()
            if not target.is_file() or target.read_bytes() != data:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                shutil.copymode(file, target)
    for file in [f for f in to.rglob("*") if f.is_file()]:
        if file.relative_to(to) not in wanted:
            file.unlink()


class Build:
    """The copied tree, built once, and the commands that compile and link a part of it again."""

    def __init__(self, work, programs):
        self.source, self.folder = work / "source", work / "build"
        self.source.mkdir(parents=True, exist_ok=True)
        copy_tree(self.source)
        # Tests look for data in the folder that has the tree.
        shared = work / "shared"
        if (ROOT.parent / "shared").is_dir() and not shared.exists():
            shared.symlink_to(ROOT.parent / "shared")
        run = lambda *command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        run("cmake", "-S", str(self.source), "-B", str(self.folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")
        run("ninja", "-C", str(self.folder), *("test_" + p for p in programs))
        self.commands, self.lock = {}, threading.Lock()

    def command(self, target):
        with self.lock:
            if target not in self.commands:
                listed = subprocess.run(["ninja", "-t", "commands", target], cwd=self.folder, check=True,
                                        capture_output=True, text=True)
                self.commands[target] = listed.stdout.strip().split("\n")[-1]
            return self.commands[target]

    def compile(self, library, source, overlay, output):
        """Compiles `source`, a path within the tree, with the files under `overlay` in place of the tree's."""
        words = shlex.split(self.command(f"CMakeFiles/{library}.dir/{source}.o"))
        words = words[words.index(next(w for w in words if re.search(r"(^|/)(cc|gcc|clang)[-.\d]*$", w))) :]
        file = overlay / source if (overlay / source).is_file() else self.source / source
        for flag in ("-MD", "-MT", "-MF"):
            if flag in words:
                at = words.index(flag)
                del words[at : at + (1 if flag == "-MD" else 2)]
        words[words.index("-o") + 1] = str(output)
        words[-1] = str(file)
        words = ["-O1" if w == "-O3" else w for w in words]
        words[1:1] = [f"-I{overlay}/src", "-w"]
        return subprocess.run(words, cwd=self.folder, capture_output=True).returncode == 0

    def link(self, program, objects, output):
        command = self.command(f"bin/test_{program}")
        command = re.sub(r" -o \S+", f" -o {output} ", command, count=1)
        command = command.replace(" libaccrue.a", " " + " ".join(map(str, objects)) + " libaccrue.a", 1)
        return subprocess.run(command, cwd=self.folder, shell=True, capture_output=True).returncode == 0

    def instruction_sets(self):
        """Those that are built and that this machine runs, the widest first."""
        flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
        needed = {"v4": " avx512vl", "v3": " avx2", "base": ""}
        return [isa for isa, flag in needed.items()
                if flag in flags and (self.folder / f"CMakeFiles/accrue_cpu_{isa}.dir").is_dir()]


def limit_process():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


def seconds_of_children():
    """Of processors: on a busy machine a program lasts longer than it works."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


running = set()  # processes, so that an interrupt ends them too


def end_process(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)  # the session that was started below
    except ProcessLookupError:
        pass


def run_program(command, environment, seconds, cwd):
    """"passed", "failed", "hung", or "compile": an OpenCL program did not."""
    with (cwd / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True, preexec_fn=limit_process)
    running.add(process)
    try:
        if process.wait(seconds) == 0:
            return "passed"
        return "compile" if b".cl does not compile on" in (cwd / "output").read_bytes() else "failed"
    except subprocess.TimeoutExpired:
        return "hung"
    finally:
        running.discard(process)
        end_process(process)
        process.wait()


# ---- one mutant -----------------------------------------------------------------------------------------------------


class Target:
    """A site and what can show it: {file to compile: [op]} of kernels, nothing of the host's functions."""

    def __init__(self, group, site, users):
        self.group, self.site, self.users = group, site, users
        self.id = hashlib.sha1(repr((group, site.key)).encode()).hexdigest()[:16]
        self.ops = sorted({op for ops in users.values() for op in ops})


class BrokenTests(Exception):
    pass


class Worker:
    """A folder of its own for what a mutant compiles and runs."""

    def __init__(self, number, build, sources, arguments):
        self.build, self.sources, self.arguments = build, sources, arguments
        self.folder = build.folder.parent / f"worker{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.overlay = self.folder / "overlay"
        self.overlay.mkdir(parents=True)
        self.caches = {"POCL_CACHE_DIR": str(self.folder / "pocl"), "ACCRUE_CACHE_DIR": str(self.folder / "accrue")}
        for path in self.caches.values():
            Path(path).mkdir()
        self.seconds, self.longest, self.originals = {}, {}, set()

    def compiled(self):
        """PoCL's compiled programs."""
        return {folder for folder in Path(self.caches["POCL_CACHE_DIR"]).glob("*/*") if folder.is_dir()}

    def run(self, program, words, environment):
        """Whether the linked mutant passes; without a mutant it must, and says how long it may take."""
        environment = {**environment, **self.caches}
        key = (program, *words, *sorted(environment.items()))
        if key not in self.seconds:
            original, known = self.build.folder / f"bin/test_{program}", self.compiled()
            started, worked = time.monotonic(), seconds_of_children()
            if run_program([str(original), *words], environment, 600, self.folder) != "passed":
                raise BrokenTests(f"test_{program} {' '.join(words)} fails without a mutant")
            self.seconds[key] = time.monotonic() - started
            self.longest[words[-1] if words else program] = min(self.seconds[key], seconds_of_children() - worked)
            self.originals |= self.compiled() - known
        return run_program([str(self.folder / "test"), *words], environment, 10 * self.seconds[key] + 10, self.folder)

    def mutate(self, target):
        shutil.rmtree(self.overlay)
        path = self.overlay / target.site.path
        path.parent.mkdir(parents=True)
        path.write_text(target.site.apply(self.sources.text[target.site.path]))
        return {"cpu": self.mutate_cpu, "cl": self.mutate_cl}.get(target.group, self.mutate_host)(target)

    def families(self, target, ops):
        """That of the function's own file first, and those that test marks where the function makes them."""
        own, function = Path(target.site.path).stem, target.site.function
        text = function.name + self.sources.text[function.path][function.begin : function.end].lower()
        first = {own, "numerics", "cast"} if "mark" in text else {own}
        reached = {self.sources.family[op] for op in ops if op in self.sources.family}
        reached |= {f for f in first if f in self.sources.family.values()}
        return sorted(reached, key=lambda family: (family not in first, family))[: MOST_FAMILIES[target.group]]

    def kill(self, target, families, extra):
        for turn, (options, environment) in enumerate(RUNS[target.group]):
            for family in families:
                if turn > 1 and self.longest.get(family, 0) > 3:
                    continue  # seconds; what other threads and stores past the caches show, shorter families do
                verdict = self.run("ops", [*options.split(), family], {**environment, **extra})
                if verdict == "compile":
                    return "compile", ""
                if verdict != "passed":
                    return "killed", f"{verdict}: {' '.join([*options.split(), family])}"
        return None

    def mutate_cpu(self, target):
        status = "same"
        for isa in self.build.instruction_sets() if not self.arguments.isa else [self.arguments.isa]:
            for user, ops in sorted(target.users.items()):
                original = self.folder / f"original.{isa}.{Path(user).name}.o"
                if not original.is_file():
                    self.build.compile(f"accrue_cpu_{isa}", user, self.folder / "none", original)
                changed = self.folder / f"changed.{Path(user).name}.o"
                if not self.build.compile(f"accrue_cpu_{isa}", user, self.overlay, changed):
                    return "compile", ""
                if changed.read_bytes() == original.read_bytes():
                    continue
                status = "survived"
                if not self.build.link("ops", [changed], self.folder / "test"):
                    return "compile", ""
                killed = self.kill(target, self.families(target, ops), {"ACCRUE_ISA": isa})
                if killed:
                    return killed[0], f"{killed[1]} ({isa})"
            if status == "survived":
                return self.kill_by_cpu_units(target) or (status, "")
        return status, ""

    def kill_by_units(self, target, objects, environment):
        for program in UNITS.get(target.site.path, ()):
            if not self.build.link(program, objects, self.folder / "test"):
                return "compile", ""
            verdict = self.run(program, [], environment)
            if verdict != "passed":
                return "killed", f"{verdict}: test_{program}"
        return None

    def kill_by_cpu_units(self, target):
        """These take kernels of any instruction set, so that all are changed."""
        objects = []
        for isa in self.build.instruction_sets() if target.site.path in UNITS else []:
            for user in sorted(target.users):
                objects.append(self.folder / f"changed.{isa}.{Path(user).name}.o")
                if not self.build.compile(f"accrue_cpu_{isa}", user, self.overlay, objects[-1]):
                    return "compile", ""
        return self.kill_by_units(target, objects, CPU)

    def embed(self, overlay, output):
        """The library's object that carries the kernels' sources, with those under `overlay` in their place."""
        changed = self.folder / "cl"
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(self.build.source / "cl", changed)
        if (overlay / "cl").is_dir():
            shutil.copytree(overlay / "cl", changed, dirs_exist_ok=True)
        kernels = sorted(changed.glob("**/*.cl"))
        text = self.folder / "embedded_kernels.c"
        subprocess.run(["cmake", "-DKERNELS=" + ";".join(map(str, kernels)), f"-DOUTPUT={text}", "-P",
                        str(changed / "embed.cmake")], check=True, capture_output=True)
        subprocess.run(["cc", "-O0", f"-I{self.build.source}/src", "-c", str(text), "-o", str(output)], check=True)

    def mutate_cl(self, target):
        device = {"ACCRUE_TEST_DEVICES": self.arguments.device, **QUIET}
        families = self.families(target, target.ops)
        kernels = self.folder / "kernels.o"
        self.embed(self.overlay, kernels)
        if not self.build.link("ops", [kernels], self.folder / "test"):
            return "compile", ""
        killed = self.kill(target, families, device) or self.kill_by_units(target, [kernels], QUIET)
        for folder in self.compiled() - self.originals:  # mutants, which are not needed again
            shutil.rmtree(folder, ignore_errors=True)
        return killed or ("survived", "")

    def mutate_host(self, target):
        source = target.site.path
        original, changed = self.folder / f"original.{Path(source).name}.o", self.folder / "changed.o"
        if not original.is_file():
            self.build.compile("accrue_objects", source, self.folder / "none", original)
        if not self.build.compile("accrue_objects", source, self.overlay, changed):
            return "compile", ""
        if changed.read_bytes() == original.read_bytes():
            return "same", ""
        for program in PROGRAMS[target.group]:
            if not self.build.link(program, [changed], self.folder / "test"):
                return "compile", ""
            verdict = self.run(program, [], CPU)
            if verdict != "passed":
                return "killed", f"{verdict}: test_{program}"
        return "survived", ""


# ---- all of them ----------------------------------------------------------------------------------------------------


def equivalents():
    """[(path, function, kind, fragment, reason)] of equivalent.txt."""
    entries, text = [], (Path(__file__).parent / "equivalent.txt").read_text()
    for line in text.split("\n"):
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith(" "):
            entries[-1][4] = (entries[-1][4] + " " + line.strip()).strip()
        else:
            words, _, fragment = line.partition(": ")
            entries.append([*words.split(), fragment, ""])
    return entries


def excuses(entries, site):
    """The entries that a site has."""
    return [entry for entry in entries
            if fnmatch.fnmatch(site.path, entry[0]) and
            entry[1] in ("*", site.function.name, f"{site.function.name}#{site.occurrence + 1}") and
            entry[2] == site.mutation.kind and entry[3] in site.after and entry[3] not in site.before]


def pick(all_sites, most, seed):
    """At most `most` of a function's sites, of as many kinds as there are."""
    if not most or len(all_sites) <= most:
        return all_sites
    draw = random.Random(f"{seed} {all_sites[0].path} {all_sites[0].function.name}")
    kinds = collections.defaultdict(list)
    for site in all_sites:
        kinds[site.mutation.kind].append(site)
    piles = [kinds[kind] for kind in sorted(kinds)]
    draw.shuffle(piles)
    for pile in piles:
        draw.shuffle(pile)
    picked = []
    while len(picked) < most:
        for pile in piles:
            if pile and len(picked) < most:
                picked.append(pile.pop())
    return sorted(picked, key=lambda site: site.mutation.start)


def all_targets(sources, arguments):
    ops = sources.ops if arguments.forward or arguments.equivalent else sources.backward_ops()
    functions = []
    for group, kernels in (("cpu", sources.cpu_kernels), ("cl", sources.cl_kernels)):
        if group in arguments.group:
            tested_by = kernels(sources.ops)  # also forward ops, which may show more
            functions += [(group, f, tested_by[f]) for f in kernels(ops)]
    if "rules" in arguments.group:
        functions += [("rules", f, {}) for f in sources.rules()]
    if "trainer" in arguments.group:
        functions += [("trainer", f, {}) for f in sources.updates()]
    entries, used, targets = equivalents(), [], []
    for group, function, users in sorted(functions, key=lambda x: (GROUPS.index(x[0]), x[1].path, x[1].begin)):
        if arguments.files and not any(fnmatch.fnmatch(function.path, p) for p in arguments.files):
            continue
        if arguments.op:
            users = {user: [op for op in found if op in arguments.op] for user, found in users.items()}
            users = {user: found for user, found in users.items() if found}
            if not users:
                continue
        candidates = mutants.sites_of(function, sources.text[function.path])
        excused = {id(s): excuses(entries, s) for s in candidates}
        candidates = [s for s in candidates if bool(excused[id(s)]) == arguments.equivalent]
        used += [entry for s in candidates for entry in excused[id(s)]]
        most = 0 if arguments.equivalent else arguments.max_per_kernel
        targets += [Target(group, s, users) for s in pick(candidates, most, arguments.seed)]
    return targets, [entry for entry in entries if entry not in used]


def read_results(path):
    results = {}
    if path.is_file():
        for line in path.read_text().split("\n"):
            try:
                result = json.loads(line)
                results[result["id"]] = result
            except ValueError:
                pass  # a line that a killed run left half written
    return results


def describe(target):
    site = target.site
    return (f"{site.path}:{site.line} {site.function.name} [{site.mutation.kind}]\n"
            f"    - {site.before}\n    + {site.after}")


STATUSES = ("killed", "survived", "same", "compile")


def print_summary(targets, results, listed="survived"):
    """Also prints what ended as `listed`, and returns how many these are."""
    rows, found = collections.defaultdict(collections.Counter), []
    for target in targets:
        result = results.get(target.id)
        status = result["status"] if result else "not run"
        rows[target.site.path][status] += 1
        rows["all"][status] += 1
        if status == listed:
            found.append(target)
    print(f"{'file':44}{''.join(s.rjust(11) for s in STATUSES)}{'not run':>11}")
    for path in [p for p in sorted(rows) if p != "all"] + ["all"]:
        counts = "".join(str(rows[path][s]).rjust(11) for s in (*STATUSES, "not run"))
        print(f"{path:44}{counts}")
    if found:
        print(f"\n{len(found)} {listed}:")
        for target in found:
            print(describe(target), results[target.id]["by"])
    return len(found)


def run_all(targets, results, path, build, sources, arguments):
    idle = queue.Queue()
    for number in range(arguments.jobs):
        idle.put(Worker(number, build, sources, arguments))
    lock, started, done, stopped = threading.Lock(), time.monotonic(), 0, threading.Event()

    def run_one(target):
        nonlocal done
        if stopped.is_set():
            return
        worker = idle.get()
        try:
            begun = time.monotonic()
            status, by = worker.mutate(target)
        finally:
            idle.put(worker)
        site = target.site
        result = {"id": target.id, "group": target.group, "path": site.path, "function": site.function.name,
                  "line": site.line, "kind": site.mutation.kind, "before": site.before, "after": site.after,
                  "status": status, "by": by, "seconds": round(time.monotonic() - begun, 2)}
        if stopped.is_set():
            return
        with lock:
            results[target.id] = result
            with path.open("a") as stream:
                stream.write(json.dumps(result) + "\n")
            done += 1
            if status == ("killed" if arguments.equivalent else "survived"):
                print(describe(target), by, flush=True)
            if done % 50 == 0:
                print(f"{done} of {len(targets)}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(run_one, target) for target in targets]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stopped.set()
            for future in futures:
                future.cancel()
            for process in list(running):
                end_process(process)
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", action="append", choices=GROUPS, help="only these; may be repeated (all)")
    parser.add_argument("--files", nargs="+", metavar="PATTERN", help="only functions of these files")
    parser.add_argument("--op", nargs="+", help="only kernels that these ops reach, tested by these ops' families")
    parser.add_argument("--forward", action="store_true", help="kernels of all ops, forward ones too")
    parser.add_argument("--max-per-kernel", type=int, default=8, metavar="N", help="mutants a function; 0: all (8)")
    parser.add_argument("--seed", default="1", help="draws which (1)")
    parser.add_argument("--isa", help="the instruction set (the widest in which a mutant differs)")
    parser.add_argument("--device", default="opencl:0", help="of the group cl (opencl:0)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (1)")
    parser.add_argument("--work", type=Path, default=ROOT / "build/mutate", help="folder (build/mutate)")
    parser.add_argument("--again", nargs="+", choices=STATUSES, default=[], help="run only those that ended so, once more")
    parser.add_argument("--equivalent", action="store_true", help="run what equivalent.txt lists, and nothing else")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument("--summary", action="store_true", help="print the results so far and run none")
    arguments = parser.parse_args()
    arguments.group = arguments.group or list(GROUPS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what runs, as an interrupt does
    work = arguments.work.resolve()
    sources = mutants.Sources(ROOT)
    targets, unused = all_targets(sources, arguments)
    if arguments.list:
        for target in targets:
            print(target.id, describe(target))
        print(f"{len(targets)} mutants")
        return 0
    if arguments.summary:
        results = read_results(work / "results.jsonl")
    else:
        work.mkdir(parents=True, exist_ok=True)
        alone = (work / "lock").open("w")
        fcntl.flock(alone, fcntl.LOCK_EX)  # waits for another run in the same folder, and goes on from its results
        results = read_results(work / "results.jsonl")
        status = lambda t: results[t.id]["status"] if t.id in results else None
        wanted = [t for t in targets if status(t) in (arguments.again or [None])]
        programs = {"ops"} | {p for g in arguments.group for p in PROGRAMS.get(g, ())}
        programs |= {p for t in wanted for p in UNITS.get(t.site.path, ())}
        build = Build(work, sorted(programs))
        print(f"{len(wanted)} of {len(targets)} mutants to run", file=sys.stderr)
        try:
            run_all(wanted, results, work / "results.jsonl", build, sources, arguments)
        except BrokenTests as broken:
            print(broken, file=sys.stderr)
            return 2
    if not arguments.equivalent:
        return 1 if print_summary(targets, results) else 0
    killed = print_summary(targets, results, "killed")
    whole = len(arguments.group) == len(GROUPS) and not (arguments.files or arguments.op)
    for entry in unused if whole else []:
        print("equivalent.txt: nothing is like", " ".join(entry[:3]) + ":", entry[3])
    return 1 if killed or (whole and unused) else 0


if __name__ == "__main__":
    sys.exit(main())
