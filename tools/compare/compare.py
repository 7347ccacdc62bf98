#!/usr/bin/env python3
"""Trains one model in PyTorch and in Accrue, alternating, and prints how time and peak memory compare.

Both sides have the same weights at the start (those that Accrue draws), the same batches (read through Accrue's
library), optimizer, precision and number of threads; so their losses must agree, step by step, and the exit status is
1 where they do not. See README.md in this folder.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import tempfile

try:
    import numpy  # noqa: F401, which what is imported below needs
except ModuleNotFoundError:
    sys.exit("compare: this Python has no numpy; tools/compare/README.md says how to get what is needed")

from largest import find_largest
from models import MODELS
from runs import VARIANTS, WARM_UP, Comparison, Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# Relative differences of losses. Sums are taken in another order; in 16 bits PyTorch and Accrue round at other places.
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 2e-2}
EIGHT_BIT_TOLERANCE = 1e-2  # states in 8 bits against those of the first row, which are in f32

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


# What is compared under the table: ours, theirs, and the name in --json.
PAIRS = [("recompute", "checkpoint", "recompute_against_checkpoint"),
         ("8bit", "bitsandbytes", "8bit_against_bitsandbytes")]


def pair_of(rows, ours, theirs):
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
            "layout": arguments.layout, "precision": comparison.precision, "threads": arguments.threads,
            "memory": arguments.memory, "rounds": arguments.rounds, "steps": arguments.steps, "warm_up_steps": WARM_UP,
            "versions": {"accrue": comparison.accrue_version, "pytorch": comparison.torch_version},
            "reference": reference, "rows": rows, **{name: pair_of(rows, *pair) for *pair, name in PAIRS},
            "failures": comparison.failures}


def show(comparison, reference, rows):
    arguments, model = comparison.arguments, comparison.model
    detail = f", context {model.context}" if model.family == "gpt" else f", PyTorch's images {arguments.layout.upper()}"
    budget = f", budget {arguments.memory}" if arguments.memory else ""
    print(f"{arguments.model}, batch {model.batch}{detail}, {comparison.precision}, {arguments.threads} threads"
          f"{budget}; "
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
        if both := pair_of(rows, ours, theirs):
            print(f"{VARIANTS[ours].label} against {VARIANTS[theirs].label}: speed {both['speed']:.2f}, "
                  f"peak resident {both['resident_ratio']:.2f}, of the model {both['growth_ratio']:.2f}, "
                  f"of the optimizer {both['state_ratio']:.2f}.")
    for name, failure in comparison.failures.items():
        done = len(comparison.runs[name])
        what = f"failed in round {done + 1}, its row is of those before" if done else "did not run"
        print(f"{VARIANTS[name].label} {what}: {failure}")


def compare(arguments, model, precision):
    """The document of one precision, and whether its losses agree and nothing failed."""
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(arguments, model, precision, WARM_UP + arguments.steps, pathlib.Path(folder))
        comparison.prepare()
        comparison.run_all()
    if not any(comparison.runs.values()):
        raise SystemExit("compare: nothing ran: " + "; ".join(comparison.failures.values()))
    reference, rows = collect(comparison)
    show(comparison, reference, rows)
    tolerance = {name: max(TOLERANCE[precision], EIGHT_BIT_TOLERANCE * VARIANTS[name].eight_bit) for name in rows}
    wrong = [name for name, row in rows.items() if not row["loss_difference"] <= tolerance[name]]
    for name in wrong:
        print(f"The losses of {VARIANTS[name].label} differ by more than {tolerance[name]:g}.")
    # To compile needs a C++ compiler, which not every machine has.
    failed = [name for name in comparison.failures if name != "compile" or comparison.runs[name]]
    return document(comparison, reference, rows), not wrong and not failed


def show_precisions(documents):
    """A column a precision: the step, and the speed against the first row in the same precision."""
    print("| |" + "".join(f" {d['precision']}, ms | speed |" for d in documents))
    print("|---|" + "---|---|" * len(documents))
    for name in dict.fromkeys(name for document in documents for name in document["rows"]):
        rows = [d["rows"].get(name) for d in documents]
        cells = "".join(f" {1e3 * row['seconds']:.1f} | {row['speed']:.2f} |" if row else " | |" for row in rows)
        print(f"| {VARIANTS[name].label} |{cells}")


# ---- the command ----------------------------------------------------------------------------------------


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


def size(text):
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    raise ValueError


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2-124m")
    parser.add_argument("--batch", type=positive, help="samples a step (by model)")
    parser.add_argument("--context", type=positive, help="tokens a sample (by model)")
    parser.add_argument("--layout", choices=["nchw", "nhwc"], default="nchw", help="of PyTorch's images (nchw)")
    parser.add_argument("--precision", nargs="+", choices=TOLERANCE, default=["f32"], help="one or several (f32)")
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), help="of both sides (all)")
    parser.add_argument("--steps", type=positive, default=8, help="measured in each run")
    parser.add_argument("--rounds", type=positive, default=3, help="runs of each variant")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, metavar="NAME",
                        help=" ".join(VARIANTS) + " (all but uncopied and those of 8 bits; budget only with --memory)")
    parser.add_argument("--memory", metavar="SIZE", help="the budget of the variant of that name, such as 1.5GiB")
    parser.add_argument("--largest", choices=["batch", "context"],
                        help="in place of times: the most that stays within --within, budget of the variant budget")
    parser.add_argument("--within", type=size, metavar="SIZE", help="resident memory of a process, such as 3GiB")
    parser.add_argument("--accrue", type=pathlib.Path, default=ROOT / "build/release/bin/accrue", help="the program")
    parser.add_argument("--library", type=pathlib.Path, help="libaccrue.so (in the folder above the program's)")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the figures")
    arguments = parser.parse_args()
    if bool(arguments.largest) != bool(arguments.within):
        parser.error("--largest and --within go together")
    if arguments.largest and arguments.memory:
        parser.error("--within says what the variant budget is given, so --memory has no meaning with it")
    if "context" in (arguments.largest, arguments.context and "context") and MODELS[arguments.model].family != "gpt":
        parser.error(f"--context is for models of text, which {arguments.model} is not")
    budget = arguments.memory or arguments.within
    arguments.variants = arguments.variants or [
        name for name, variant in VARIANTS.items()
        if (not variant.budget or budget) and not variant.eight_bit and not variant.uncopied]
    if bool(budget) < ("budget" in arguments.variants) or bool(arguments.memory) > ("budget" in arguments.variants):
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
    model = MODELS[arguments.model]
    for name in "batch", "context":
        if getattr(arguments, name):
            model = dataclasses.replace(model, **{name: getattr(arguments, name)})
    documents, good = [], True
    try:
        for precision in arguments.precision:
            if arguments.largest:
                documents.append(find_largest(arguments, model, precision))
            else:
                written, agrees = compare(arguments, model, precision)
                documents.append(written)
                good = good and agrees
            print(flush=True)
    except Failed as failure:
        raise SystemExit(f"compare: accrue: {failure}") from None
    if len(documents) > 1 and not arguments.largest:
        show_precisions(documents)
    if arguments.json:
        arguments.json.write_text(json.dumps(documents, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
