#!/usr/bin/env python3
"""Times each matrix product and convolution of a training step in PyTorch and in Accrue, and prints how they compare.

Accrue's shapes and times are those of `accrue bench ops`; PyTorch multiplies the same shapes, in the layout of its
choice. Rounds of the two take turns. See README.md in this folder.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ModuleNotFoundError:
    sys.exit("products: this Python has no torch; tools/compare/README.md says how to get what is needed")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILTERS = {"gpt2-124m": "linear", "resnet18": "conv2d"}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

# ---- PyTorch's side -----------------------------------------------------------------------------------


def parse(detail):
    """Shapes of what is read, shapes of what is written, and {"stride": 2, ...}; flags alone have the value 1."""
    shapes, *settings = detail.split(", ")
    read, written = ([[int(n) for n in shape.lstrip("+").split("x")] for shape in side.split()]
                     for side in shapes.split(" -> "))
    named = dict((s.rsplit(" ", 1) if re.search(r" \d+$", s) else (s, "1")) for s in settings)
    return read, written, {key: int(value) for key, value in named.items()}


def linear(name, read, written, dtype):
    """Functions that make operands, each with a function of them that does the product, one for each layout."""
    if name == "linear":
        x, y, bias = read[0], written[0], len(read) > 2
    elif name == "linear_input_gradient":
        x, y, bias = written[0], read[0], False
    else:
        x, y, bias = read[0], read[1], len(written) > 1
    rows, ins, outs = math.prod(x[:-1]), x[-1], y[-1]

    def operands(transposed):
        weight = torch.randn(outs, ins).to(dtype)
        return (torch.randn(rows, ins).to(dtype), weight.t().contiguous().t() if transposed else weight,
                torch.randn(outs).to(dtype), torch.randn(rows, outs).to(dtype))

    def multiply(x, weight, b, dy):
        if name == "linear":
            return torch.nn.functional.linear(x, weight, b if bias else None)
        if name == "linear_input_gradient":
            return dy @ weight
        gradient = dy.t() @ x if weight.is_contiguous() else x.t() @ dy
        return gradient, dy.sum(0) if bias else None

    return [(lambda t=t: operands(t), multiply) for t in (False, True)]


def conv2d(name, read, written, settings, dtype):
    if name == "conv2d":
        x, weight, y = read[0], read[1], written[0]
    elif name == "conv_transpose2d":
        x, weight, y = written[0], read[1], read[0]
    else:
        x, weight, y = read[0], written[0], read[1]
    geometry = [settings.get("stride", 1)] * 2, [settings.get("padding", 0)] * 2, [settings.get("dilation", 1)] * 2
    groups = settings.get("groups", 1)

    def operands(layout):
        return [torch.randn(shape).to(dtype).to(memory_format=layout) for shape in (x, weight, y)]

    def multiply(x, weight, dy):
        if name == "conv2d":
            return torch.nn.functional.conv2d(x, weight, None, *geometry, groups)
        mask = [name == "conv_transpose2d", name == "conv2d_weight_gradient", False]
        return torch.ops.aten.convolution_backward(dy, x, weight, None, *geometry, False, [0, 0], groups, mask)

    return [(lambda m=m: operands(m), multiply) for m in (torch.contiguous_format, torch.channels_last)]


def measure(operands, multiply, footprint, seconds):
    """The median, with operands that together take at least `footprint` bytes, one set after the other. Results are kept
    until the next of the same set, so that they go round in as much memory; else the allocator would hand out the same
    cached bytes each time."""
    sets = [operands()]
    bytes_of_one = sum(t.numel() * t.element_size() for t in sets[0])
    sets += [operands() for _ in range(min(64, math.ceil(footprint / bytes_of_one)) - 1)]
    results = [multiply(*each) for each in sets]
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < 7 or time.perf_counter() < end:
        i = len(samples) % len(sets)
        start = time.perf_counter()
        result = multiply(*sets[i])
        samples.append(time.perf_counter() - start)
        results[i] = result
    return statistics.median(samples)


def time_pytorch(row, arguments):
    """Of the faster layout."""
    read, written, settings = parse(row["detail"])
    dtype = DTYPES[row["precision"]]
    layouts = (linear(row["name"], read, written, dtype) if row["name"].startswith("linear") else
               conv2d(row["name"], read, written, settings, dtype))
    return min(measure(*layout, arguments.footprint * 2**20, arguments.seconds) for layout in layouts)


# ---- both ---------------------------------------------------------------------------------------------


def time_accrue(model, precision, arguments):
    """{(name, detail): the row as the bench writes it}"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "ops.json")
        batch = ["--batch", str(arguments.batch)] if arguments.batch else []
        subprocess.run([arguments.accrue, "bench", "ops", "--device", "cpu", "--model", model, "--precision", precision,
                        "--filter", FILTERS[model], "--visits", "1", "--seconds", str(arguments.seconds), "--threads",
                        str(arguments.threads), "--footprint", f"{arguments.footprint}MiB", "--json", path, *batch],
                       stdout=subprocess.DEVNULL, check=True)
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {(row["name"], row["detail"]): row for row in rows
            if row["count"] and row["name"].startswith(FILTERS[model]) and "cross_entropy" not in row["name"]}


def print_table(model, precision, rows):
    """rows: (row of the bench, seconds of PyTorch, of Accrue), each a list by round"""
    print(f"\n{model}, {precision}\n\n| op | times a step | PyTorch, ms | Accrue, ms | speed | rounds |\n|---|---|---|---|---|---|")
    speeds, sums = [], [0, 0]
    for row, theirs, ours in rows:
        rounds = [a / b for a, b in zip(theirs, ours, strict=True)]
        medians = statistics.median(theirs), statistics.median(ours)
        speeds.append(medians[0] / medians[1])
        for side in range(2):
            sums[side] += row["count"] * medians[side]
        print(f"| {row['name']} {row['detail']} | {row['count']} | {1e3 * medians[0]:.2f} | {1e3 * medians[1]:.2f} | "
              f"{speeds[-1]:.2f} | {min(rounds):.2f} to {max(rounds):.2f} |")
    mean = math.exp(statistics.fmean(map(math.log, speeds)))
    print(f"\nSpeed is PyTorch's time by Accrue's: geometric mean {mean:.2f}, {sum(s >= 1 for s in speeds)} of "
          f"{len(speeds)} at 1 or more; all of a step {1e3 * sums[0]:.1f} and {1e3 * sums[1]:.1f} ms, "
          f"{sums[0] / sums[1]:.2f}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=list(FILTERS), nargs="+", default=list(FILTERS))
    parser.add_argument("--precision", choices=list(DTYPES), nargs="+", default=["bf16"])
    parser.add_argument("--batch", type=int, help="samples (by model)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each product and round (0.2)")
    parser.add_argument("--footprint", type=int, default=128, help="MiB that runs go round in, more than caches (128)")
    parser.add_argument("--accrue", type=pathlib.Path, default=ROOT / "build/release/bin/accrue")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    print(f"PyTorch {torch.__version__}, {arguments.threads} threads, {arguments.rounds} rounds")
    for model in arguments.model:
        for precision in arguments.precision:
            rows = {}
            for _ in range(arguments.rounds):
                for key, row in time_accrue(model, precision, arguments).items():
                    rows.setdefault(key, (row, [], []))[2].append(row["results"][0]["median_seconds"])
                for row, theirs, _ in rows.values():
                    theirs.append(time_pytorch(row, arguments))
            print_table(model, precision, rows.values())


if __name__ == "__main__":
    main()
