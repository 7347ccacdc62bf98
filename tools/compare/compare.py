#!/usr/bin/env python3
"""Trains one model in PyTorch and in Accrue, alternating, and prints how time and peak memory compare.

Both sides have the same weights at the start (those that Accrue draws), the same batches (read through Accrue's
library), optimizer, precision and number of threads; so their losses must agree, step by step, and the exit status is
1 where they do not. See README.md beside this file.
"""

import argparse
import ctypes
import dataclasses
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import numpy
except ModuleNotFoundError:
    sys.exit("compare: this Python has no numpy; tools/compare/README.md says how to get what is needed")

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARM_UP = 2  # steps of each run that do not count
OPTIMIZER = {"loss_scale": 4096, "betas": [0.9, 0.99], "weight_decay": 0.1, "clip": 1.0}
# Relative differences of losses. Sums are taken in another order; in 16 bits PyTorch and Accrue round at other places.
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 2e-2}
EIGHT_BIT_TOLERANCE = 1e-2  # states in 8 bits beside ones in f32, of which the first row's are

# ---- models -------------------------------------------------------------------------------------------


class SampleKey(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int64), ("epoch", ctypes.c_int64), ("seed", ctypes.c_uint64)]


def read_samples(library, dataset, seed, fields):
    """Yields the fields of a dataset's samples, always the same arrays, in the order of the first epoch."""
    count = library.ac_dataset_count(dataset)
    pointers = (ctypes.c_void_p * len(fields))(*(field.ctypes.data for field in fields))
    for position in range(count):
        key = SampleKey(library.ac_shuffle(ctypes.c_uint64(seed), ctypes.c_int64(0), ctypes.c_int64(position),
                                           ctypes.c_int64(count)), 0, seed)
        if library.ac_dataset_read(dataset, ctypes.byref(key), pointers) != 0:
            raise SystemExit("compare: a sample cannot be read")
        yield fields


@dataclasses.dataclass
class Gpt:
    """A model is such an entry: its data and flags for Accrue, its name and shape for pytorch.py."""

    layers: int
    heads: int
    width: int
    vocab: int
    context: int
    batch: int
    family = "gpt"
    lr = 1e-4

    def shape(self):
        return {"layers": self.layers, "heads": self.heads, "width": self.width, "vocab": self.vocab,
                "context": self.context}

    def write_data(self, folder, steps):
        """Enough tokens for all steps within one epoch; common ones are much more frequent than others."""
        windows = steps * self.batch + 2
        count = max(windows * self.context * 10 // 9, 10 * (self.context + 1)) + 64
        ranks = numpy.random.default_rng(1).pareto(1.0, count) * 20
        (ranks.astype(numpy.int64) % self.vocab).astype("<u2").tofile(folder / "data")

    def flags(self, folder):
        return ["gpt", "--data", folder / "data", "--vocab", self.vocab, "--layers", self.layers, "--heads",
                self.heads, "--width", self.width, "--context", self.context]

    def read_batches(self, library, folder, steps, seed):
        """The samples of the first `steps` windows: tokens [steps, batch, context + 1]."""
        tokens, dataset = ctypes.c_void_p(), ctypes.c_void_p()
        library.ac_tokens_from_uint16(ctypes.byref(tokens), bytes(folder / "data"), ctypes.c_int64(self.vocab))
        end = int(0.9 * library.ac_tokens_count(tokens))  # the rest validates
        library.ac_dataset_from_tokens(ctypes.byref(dataset), tokens, ctypes.c_int64(0), ctypes.c_int64(end),
                                       ctypes.c_int64(self.context), ctypes.c_bool(True))
        assert library.ac_dataset_count(dataset) >= steps * self.batch
        batches = numpy.empty((steps * self.batch, self.context + 1), numpy.int64)
        fields = [numpy.empty(self.context, numpy.int32) for _ in range(2)]
        for batch, (inputs, targets) in zip(batches, read_samples(library, dataset, seed, fields)):
            batch[:-1], batch[1:] = inputs, targets
        return {"tokens": batches.reshape(steps, self.batch, -1)}


@dataclasses.dataclass
class Resnet:
    """Images are as CIFAR-10 has them."""

    depth: int
    blocks: tuple  # of each stage: what the depth stands for
    width: int
    batch: int
    family = "resnet"
    lr = 1e-5  # at 1e-4 rounding alone, even PyTorch's own in another layout, grows beyond 1e-4 in a few steps

    def shape(self):
        return {"blocks": self.blocks, "width": self.width, "classes": 10}

    def write_data(self, folder, steps):
        """Enough random images for all steps within one epoch."""
        random = numpy.random.default_rng(1)
        records = random.integers(0, 256, (steps * self.batch, 1 + 3 * 32 * 32), numpy.uint8)
        records[:, 0] %= 10
        (folder / "images").mkdir()
        records.tofile(folder / "images" / "data_batch_1.bin")
        records[:10].tofile(folder / "images" / "test_batch.bin")

    def flags(self, folder):
        return ["resnet", "--data", folder / "images", "--depth", self.depth, "--width", self.width, "--shift", 0,
                "--rotation", 0, "--scaling", 0]

    def read_batches(self, library, folder, steps, seed):
        """The samples of the first `steps` windows: images [steps, batch, 3, 32, 32], labels [steps, batch]."""
        dataset = ctypes.c_void_p()
        library.ac_dataset_from_cifar10(ctypes.byref(dataset), bytes(folder / "images"), ctypes.c_int64(0),
                                        ctypes.c_int64(-1))
        count = steps * self.batch
        assert library.ac_dataset_count(dataset) == count
        images, labels = numpy.empty((count, 3, 32, 32), numpy.float32), numpy.empty(count, numpy.int64)
        fields = [numpy.empty((3, 32, 32), numpy.float32), numpy.empty(1, numpy.int32)]
        for sample, (image, label) in enumerate(read_samples(library, dataset, seed, fields)):
            images[sample], labels[sample] = image, label[0]
        return {"images": images.reshape(steps, self.batch, 3, 32, 32), "labels": labels.reshape(steps, self.batch)}


MODELS = {
    "gpt2-124m": Gpt(layers=12, heads=12, width=768, vocab=50257, context=64, batch=4),
    "gpt-small": Gpt(layers=4, heads=4, width=128, vocab=256, context=64, batch=12),
    "resnet18": Resnet(depth=18, blocks=(2, 2, 2, 2), width=64, batch=32),
}


def open_library(path):
    library = ctypes.CDLL(path)
    for name in "ac_tokens_count", "ac_dataset_count", "ac_shuffle":
        getattr(library, name).restype = ctypes.c_int64
    return library


# ---- runs ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Variant:
    label: str
    pytorch: bool
    recompute: bool
    compile: bool = False
    budget: bool = False
    eight_bit: bool = False  # AdamW's moments, of tensors of 4,096 weights and more


VARIANTS = {
    "eager": Variant("PyTorch", True, False),
    "compile": Variant("PyTorch, compiled", True, False, compile=True),
    "checkpoint": Variant("PyTorch, checkpointing", True, True),
    "accrue": Variant("Accrue", False, False),
    "recompute": Variant("Accrue, recomputing", False, True),
    "budget": Variant("Accrue, within a budget", False, False, budget=True),
    "bitsandbytes": Variant("PyTorch, bitsandbytes' AdamW8bit", True, False, eight_bit=True),
    "8bit": Variant("Accrue, 8-bit states", False, False, eight_bit=True),
}


@dataclasses.dataclass
class Run:
    losses: list
    seconds: list  # after the warm-up
    resident: int  # the process's peak, bytes
    growth: int  # of that, what came with the model
    state: int  # bytes of the optimizer's


class Failed(Exception):
    pass


# Linux counts to a process what was resident in the one that started it, so a small one starts and measures it.
LAUNCHER = """
import os, sys
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ,
                        file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def run_process(command, threads):
    """Its peak of resident memory in bytes, as the system counts it."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    result = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, command)], env=environment,
                            capture_output=True, text=True, errors="replace", check=True)
    code, kibibytes = map(int, result.stdout.split())
    if code != 0:
        raise Failed(f"exit status {code}: {(result.stderr.strip().splitlines() or ['no message'])[-1]}")
    return kibibytes * 1024


class Comparison:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.model = MODELS[arguments.model]
        for name in "batch", "context":
            if getattr(arguments, name):
                self.model = dataclasses.replace(self.model, **{name: getattr(arguments, name)})
        self.steps = WARM_UP + arguments.steps
        self.runs = {name: [] for name in arguments.variants}
        self.failures = {}
        self.torch_version = "not run"

    def accrue(self, flags, steps, *more):
        arguments = self.arguments
        scale = ["--loss-scale-init", OPTIMIZER["loss_scale"]] if arguments.precision == "f16" else []
        return run_process(
            [arguments.accrue, "train", *flags, "--device", "cpu", "--threads", arguments.threads, "--batch",
             self.model.batch, "--steps", steps, "--eval-every", 0, "--seed", 1, "--precision", arguments.precision,
             "--schedule", "constant", "--warmup", 0, "--beta1", OPTIMIZER["betas"][0], "--beta2",
             OPTIMIZER["betas"][1], "--weight-decay", OPTIMIZER["weight_decay"], "--clip", OPTIMIZER["clip"], *scale,
             *more], arguments.threads)

    def prepare(self):
        """Data, first weights and batches; and what the program takes before it does anything."""
        self.model.write_data(self.folder, self.steps)
        self.accrue(self.model.flags(self.folder), 1, "--lr", 0, "--out", self.folder / "first")
        library = open_library(self.arguments.library)
        numpy.savez(self.folder / "batches.npz", **self.model.read_batches(library, self.folder, self.steps, seed=1))
        self.idle = run_process([self.arguments.accrue, "--version"], self.arguments.threads)
        self.accrue_version = subprocess.run([self.arguments.accrue, "--version"], capture_output=True, text=True,
                                             check=True).stdout.split()[-1]

    def run_accrue(self, variant):
        metrics = self.folder / "metrics.jsonl"
        policy = "auto" if variant.budget else "all" if variant.recompute else "none"
        budget = ["--memory", self.arguments.memory] if variant.budget else []
        state = ["--optimizer-state", "8bit", "--state-f32="] if variant.eight_bit else []
        resident = self.accrue(
            self.model.flags(self.folder), self.steps, "--lr", self.model.lr, "--init",
            self.folder / "first" / "model.safetensors", "--recompute", policy, *budget,
            *state, "--out", self.folder / "trained", "--metrics", metrics)
        events = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        for number, step in enumerate(steps, 1):
            if step["skipped"]:
                raise Failed(f"step {number} was skipped, as its loss or a gradient is not finite")
        return Run([step["loss"] for step in steps], [step["seconds"] for step in steps][WARM_UP:], resident,
                   resident - self.idle, events[0]["planned_bytes"]["optimizer"])

    def run_pytorch(self, variant):
        spec = {"family": self.model.family, "model": self.model.shape(), "recompute": variant.recompute,
                "compile": variant.compile, "eight_bit": variant.eight_bit, "precision": self.arguments.precision, "threads": self.arguments.threads,
                "init": str(self.folder / "first" / "model.safetensors"), "batches": str(self.folder / "batches.npz"),
                "channels_last": self.arguments.layout == "nhwc", "lr": self.model.lr, **OPTIMIZER}
        (self.folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        resident = run_process(
            [sys.executable, HERE / "pytorch.py", self.folder / "spec.json", self.folder / "result.json"],
            self.arguments.threads)
        result = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        self.torch_version = result["version"]
        return Run(result["losses"], result["seconds"][WARM_UP:], resident, resident - result["before"],
                   result["state"])

    def run_all(self):
        for number in range(self.arguments.rounds):
            for name, runs in self.runs.items():
                if name in self.failures:
                    continue
                variant = VARIANTS[name]
                print(f"round {number + 1} of {self.arguments.rounds}: {variant.label}", file=sys.stderr, flush=True)
                try:
                    runs.append(self.run_pytorch(variant) if variant.pytorch else self.run_accrue(variant))
                except Failed as failure:
                    self.failures[name] = str(failure)


# ---- the result ---------------------------------------------------------------------------------------


KINDS_OF_BYTES = "resident", "growth", "state"


def summarise(runs):
    """The median step, the medians of the slowest and of the fastest round, the greatest peaks."""
    medians = [statistics.median(run.seconds) for run in runs]
    return {
        "seconds": statistics.median([second for run in runs for second in run.seconds]),
        "fastest_round": min(medians),
        "slowest_round": max(medians),
        "resident_bytes": max(run.resident for run in runs),
        "growth_bytes": max(run.growth for run in runs),
        "state_bytes": runs[0].state,
        "last_loss": runs[0].losses[-1],
    }


def difference(losses, others):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, others, strict=True))


def collect(comparison):
    rows = {name: summarise(runs) for name, runs in comparison.runs.items() if runs}
    reference = next(iter(rows))  # the first variant: PyTorch, unless it was not asked for
    for name, row in rows.items():
        row["speed"] = rows[reference]["seconds"] / row["seconds"]
        for key in KINDS_OF_BYTES:
            row[f"{key}_ratio"] = row[f"{key}_bytes"] / rows[reference][f"{key}_bytes"]
        row["loss_difference"] = max(
            difference(run.losses, comparison.runs[reference][0].losses) for run in comparison.runs[name])
    return reference, rows


# What is put beside each other under the table: ours, theirs, and the name in --json.
PAIRS = [("recompute", "checkpoint", "recompute_against_checkpoint"),
         ("8bit", "bitsandbytes", "8bit_against_bitsandbytes")]


def beside(rows, ours, theirs):
    """How two rows compare; None unless both ran."""
    if not {ours, theirs} <= rows.keys():
        return None
    ours, theirs = rows[ours], rows[theirs]
    return {"speed": theirs["seconds"] / ours["seconds"],
            **{f"{key}_ratio": ours[f"{key}_bytes"] / theirs[f"{key}_bytes"] for key in KINDS_OF_BYTES}}


def document(comparison, reference, rows):
    """What --json holds: figures, and all that they depend on."""
    arguments, model = comparison.arguments, comparison.model
    return {"model": arguments.model, "batch": model.batch, "context": getattr(model, "context", None),
            "layout": arguments.layout, "precision": arguments.precision, "threads": arguments.threads,
            "memory": arguments.memory, "rounds": arguments.rounds, "steps": arguments.steps, "warm_up_steps": WARM_UP,
            "versions": {"accrue": comparison.accrue_version, "pytorch": comparison.torch_version},
            "reference": reference, "rows": rows, **{name: beside(rows, *pair) for *pair, name in PAIRS},
            "failures": comparison.failures}


def show(comparison, reference, rows):
    arguments, model = comparison.arguments, comparison.model
    detail = f", context {model.context}" if model.family == "gpt" else f", PyTorch's images {arguments.layout.upper()}"
    budget = f", budget {arguments.memory}" if arguments.memory else ""
    print(f"{arguments.model}, batch {model.batch}{detail}, {arguments.precision}, {arguments.threads} threads{budget}; "
          f"PyTorch {comparison.torch_version}, Accrue {comparison.accrue_version}; "
          f"{arguments.rounds} rounds of {arguments.steps} steps after {WARM_UP}\n")
    print(f"| | step, ms | rounds, ms | speed | peak resident, MiB | ratio | of the model, MiB | ratio "
          f"| of the optimizer, MiB | ratio | last loss | largest difference |\n|" + "---|" * 12)
    for name, row in rows.items():
        print(f"| {VARIANTS[name].label} | {1e3 * row['seconds']:.1f} "
              f"| {1e3 * row['fastest_round']:.1f} to {1e3 * row['slowest_round']:.1f} | {row['speed']:.2f} "
              f"| {row['resident_bytes'] / 2**20:.0f} | {row['resident_ratio']:.2f} "
              f"| {row['growth_bytes'] / 2**20:.0f} | {row['growth_ratio']:.2f} "
              f"| {row['state_bytes'] / 2**20:.1f} | {row['state_ratio']:.2f} "
              f"| {row['last_loss']:.5f} | {row['loss_difference']:.1e} |")
    print(f"\nSpeed and ratios are relative to {VARIANTS[reference].label}.")
    for ours, theirs, _ in PAIRS:
        if both := beside(rows, ours, theirs):
            print(f"{VARIANTS[ours].label} beside {VARIANTS[theirs].label}: speed {both['speed']:.2f}, "
                  f"peak resident {both['resident_ratio']:.2f}, of the model {both['growth_ratio']:.2f}, "
                  f"of the optimizer {both['state_ratio']:.2f}.")
    for name, failure in comparison.failures.items():
        done = len(comparison.runs[name])
        what = f"failed in round {done + 1}, its row is of those before" if done else "did not run"
        print(f"{VARIANTS[name].label} {what}: {failure}")


def missing_packages(variants):
    needed = []
    if any(VARIANTS[name].pytorch for name in variants):
        needed += ["torch", "safetensors"]
    if "bitsandbytes" in variants:
        needed.append("bitsandbytes")
    return [name for name in needed if not importlib.util.find_spec(name)]


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--batch", type=positive, help="samples a step (by model)")
    parser.add_argument("--context", type=positive, help="tokens a sample (by model)")
    parser.add_argument("--layout", choices=["nchw", "nhwc"], default="nchw", help="of PyTorch's images (nchw)")
    parser.add_argument("--precision", choices=TOLERANCE, default="f32")
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), help="of both sides (all)")
    parser.add_argument("--steps", type=positive, default=8, help="measured in each run")
    parser.add_argument("--rounds", type=positive, default=3, help="runs of each variant")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, metavar="NAME",
                        help=" ".join(VARIANTS) + " (all but those of 8 bits; budget only with --memory)")
    parser.add_argument("--memory", metavar="SIZE", help="the budget of the variant of that name, such as 1.5GiB")
    parser.add_argument("--accrue", type=pathlib.Path, default=ROOT / "build/release/bin/accrue", help="the program")
    parser.add_argument("--library", type=pathlib.Path, help="libaccrue.so (in the folder above the program's)")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the figures")
    arguments = parser.parse_args()
    if arguments.context and MODELS[arguments.model].family != "gpt":
        parser.error(f"--context is for models of text, which {arguments.model} is not")
    arguments.variants = arguments.variants or [
        name for name, variant in VARIANTS.items() if (not variant.budget or arguments.memory) and not variant.eight_bit]
    if bool(arguments.memory) != ("budget" in arguments.variants):
        parser.error("--memory and the variant budget go together")
    arguments.library = arguments.library or arguments.accrue.resolve().parent.parent / "libaccrue.so"
    for path in arguments.accrue, arguments.library:
        if not path.exists():
            parser.error(f"there is no {path}")
    if missing := missing_packages(arguments.variants):
        parser.error(f"the variants need what this Python does not have: {', '.join(missing)}")
    return arguments


def main():
    arguments = parse()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(arguments, pathlib.Path(folder))
        try:
            comparison.prepare()
        except Failed as failure:
            raise SystemExit(f"compare: accrue: {failure}") from None
        comparison.run_all()
    if not any(comparison.runs.values()):
        raise SystemExit("compare: nothing ran: " + "; ".join(comparison.failures.values()))
    reference, rows = collect(comparison)
    show(comparison, reference, rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(document(comparison, reference, rows), indent=2) + "\n", encoding="utf-8")
    tolerance = {name: max(TOLERANCE[arguments.precision], EIGHT_BIT_TOLERANCE * VARIANTS[name].eight_bit)
                 for name in rows}
    wrong = [name for name, row in rows.items() if not row["loss_difference"] <= tolerance[name]]
    for name in wrong:
        print(f"The losses of {VARIANTS[name].label} differ by more than {tolerance[name]:g}.")
    # To compile needs a C++ compiler, which not every machine has.
    failed = [name for name in comparison.failures if name != "compile" or comparison.runs[name]]
    sys.exit(1 if wrong or failed else 0)


if __name__ == "__main__":
    main()
