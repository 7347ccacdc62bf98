"""Runs of PyTorch and of Accrue, each in a process of its own, from the same weights and on the same batches."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy

from models import open_library

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 2  # steps of each run that do not count
OPTIMIZER = {"loss_scale": 4096, "betas": [0.9, 0.99], "weight_decay": 0.1, "clip": 1.0}


@dataclasses.dataclass
class Variant:
    label: str
    pytorch: bool
    recompute: bool
    compile: bool = False
    budget: bool = False
    eight_bit: bool = False  # AdamW's moments, of tensors of 4,096 weights and more
    uncopied: bool = False  # weights in 16 bits have no working copies


VARIANTS = {
    "eager": Variant("PyTorch", True, False),
    "compile": Variant("PyTorch, compiled", True, False, compile=True),
    "checkpoint": Variant("PyTorch, checkpointing", True, True),
    "accrue": Variant("Accrue", False, False),
    "recompute": Variant("Accrue, recomputing", False, True),
    "budget": Variant("Accrue, within a budget", False, False, budget=True),
    "uncopied": Variant("Accrue, without working copies", False, False, uncopied=True),
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


def tell(text):
    print(text, file=sys.stderr, flush=True)


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
    """Of one model, as large as it is here, in one precision."""

    def __init__(self, arguments, model, precision, steps, folder):
        self.arguments = arguments
        self.model = model
        self.precision = precision
        self.steps = steps
        self.folder = folder
        self.runs = {name: [] for name in arguments.variants}
        self.failures = {}
        self.torch_version = "not run"

    def accrue(self, batch, steps, *more):
        arguments = self.arguments
        scale = ["--loss-scale-init", OPTIMIZER["loss_scale"]] if self.precision == "f16" else []
        return run_process(
            [arguments.accrue, "train", *self.model.flags(self.folder), "--device", "cpu", "--threads",
             arguments.threads, "--batch", batch, "--steps", steps, "--eval-every", 0, "--seed", 1, "--precision",
             self.precision, "--schedule", "constant", "--warmup", 0, "--beta1", OPTIMIZER["betas"][0], "--beta2",
             OPTIMIZER["betas"][1], "--weight-decay", OPTIMIZER["weight_decay"], "--clip", OPTIMIZER["clip"], *scale,
             "--overwrite", *more], arguments.threads)

    def prepare(self):
        """Data, first weights and batches; and what the program takes before it does anything."""
        self.model.write_data(self.folder, self.steps)
        self.accrue(1, 1, "--lr", 0, "--out", self.folder / "first")
        library = open_library(self.arguments.library)
        numpy.savez(self.folder / "batches.npz", **self.model.read_batches(library, self.folder, self.steps, seed=1))
        self.idle = run_process([self.arguments.accrue, "--version"], self.arguments.threads)
        self.accrue_version = subprocess.run([self.arguments.accrue, "--version"], capture_output=True, text=True,
                                             check=True).stdout.split()[-1]

    def run_accrue(self, variant, *more):
        metrics = self.folder / "metrics.jsonl"
        policy = "auto" if variant.budget else "all" if variant.recompute else "none"
        budget = ["--memory", self.arguments.memory] if variant.budget else []
        state = ["--optimizer-state", "8bit", "--state-f32="] if variant.eight_bit else []
        copies = ["--working-copies", "none"] if variant.uncopied else []
        resident = self.accrue(
            self.model.batch, self.steps, "--lr", self.model.lr, "--init",
            self.folder / "first" / "model.safetensors", "--recompute", policy, *budget,
            *state, *copies, "--out", self.folder / "trained", "--metrics", metrics, *more)
        events = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        for number, step in enumerate(steps, 1):
            if step["skipped"]:
                raise Failed(f"step {number} was skipped, as its loss or a gradient is not finite")
        return Run([step["loss"] for step in steps], [step["seconds"] for step in steps][WARM_UP:], resident,
                   resident - self.idle, events[0]["planned_bytes"]["optimizer"])

    def run_pytorch(self, variant):
        spec = {"family": self.model.family, "model": self.model.shape(), "recompute": variant.recompute,
                "compile": variant.compile, "eight_bit": variant.eight_bit, "precision": self.precision,
                "threads": self.arguments.threads,
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

    def run(self, name, *more):
        variant = VARIANTS[name]
        return self.run_pytorch(variant) if variant.pytorch else self.run_accrue(variant, *more)

    def run_all(self):
        for number in range(self.arguments.rounds):
            for name, runs in self.runs.items():
                if name in self.failures:
                    continue
                tell(f"{self.precision}, round {number + 1} of {self.arguments.rounds}: {VARIANTS[name].label}")
                try:
                    runs.append(self.run(name))
                except Failed as failure:
                    self.failures[name] = str(failure)
