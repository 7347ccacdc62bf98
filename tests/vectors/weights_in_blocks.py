#!/usr/bin/env python3
"""Weights rounded to blocks, tests/vectors/weights_in_blocks.safetensors: rows of floats, their blocks by the packages gguf
(0.19.0: Q8_0, Q4_0, Q4_1) and bitsandbytes (0.50.2: NF4, with its codes and scales), and what these decode to.

    python3 tests/vectors/weights_in_blocks.py
"""
import pathlib

import bitsandbytes.functional as bitsandbytes
import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
TYPES = gguf.GGMLQuantizationType
COLUMNS = 128


def rows():
    draw = np.random.default_rng(7)
    x = draw.standard_normal((8, COLUMNS)).astype(np.float32)
    x[1] *= 1e-3
    x[2] *= np.exp(draw.standard_normal(COLUMNS) * 3)
    x[3] = 0
    x[3, 40] = -1.5
    x[4] = 0.25
    x[5] = np.linspace(-1, 1, COLUMNS)  # ties among the largest
    x[6] = draw.integers(-8, 8, COLUMNS) / 16
    x[7] *= 1e-9
    return x


def main():
    x = rows()
    tensors = {"x": x}
    for kind in (TYPES.Q8_0, TYPES.Q4_0, TYPES.Q4_1):
        data = quantize(x, kind)
        tensors[kind.name.lower() + ".bytes"] = data
        tensors[kind.name.lower()] = dequantize(data, kind)
    packed, state = bitsandbytes.quantize_4bit(torch.from_numpy(x), blocksize=64, quant_type="nf4")
    codes = packed.numpy().reshape(-1)
    tensors["nf4.codes"] = np.stack([codes >> 4, codes & 15], 1).reshape(x.shape).astype(np.uint8)
    tensors["nf4.scales"] = state.absmax.numpy()
    tensors["nf4"] = bitsandbytes.dequantize_4bit(packed, state).numpy()
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()},
              str(HERE / "weights_in_blocks.safetensors"))


if __name__ == "__main__":
    main()
