#!/usr/bin/env python3
"""Floats, and the blocks that the package gguf (0.19.0) rounds them to: tests/vectors/rounded.safetensors.

    python3 tests/vectors/gguf_rounded.py
"""
import pathlib

import gguf
import numpy as np
from gguf.quants import quantize
from safetensors.numpy import save_file

TYPES = gguf.GGMLQuantizationType


def main():
    draw = np.random.default_rng(2)
    rows = [draw.standard_normal((24, 64)), draw.standard_normal((8, 64)) * 1e-3, draw.uniform(0, 1, (8, 64)),
            draw.integers(-8, 9, (16, 64)) / 2]  # many halves between two steps
    # A row of zeros, one of equal elements, one element alone, elements below the least half, and large ones.
    special = np.zeros((6, 64))
    special[1], special[2, 5], special[3] = 0.75, -3, draw.standard_normal(64) * 1e-9
    special[4], special[5] = draw.standard_normal(64) * 1e4, -draw.uniform(1, 2, 64)
    floats = np.concatenate([*rows, special]).astype(np.float32)
    made = {"floats": floats}
    for kind in (TYPES.Q4_0, TYPES.Q4_1, TYPES.Q8_0):
        made[kind.name] = quantize(floats, kind).view(np.uint8)
    made["BF16"] = quantize(floats, TYPES.BF16).view(np.uint8)
    made["F16"] = floats.astype(np.float16).view(np.uint8)
    save_file({name: np.ascontiguousarray(value) for name, value in made.items()},
              str(pathlib.Path(__file__).resolve().parent / "rounded.safetensors"))


if __name__ == "__main__":
    main()
