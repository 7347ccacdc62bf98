#!/usr/bin/env python3
"""A GGUF file with a tensor of each type that the library reads, tests/vectors/blocks.gguf, and what the package gguf
(0.19.0) decodes them to, tests/vectors/blocks.safetensors.

    python3 tests/vectors/gguf_blocks.py
"""
import pathlib

import gguf
import numpy as np
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
TYPES = gguf.GGMLQuantizationType


def random_blocks(draw, rows, kind):
    """Any bytes are valid blocks; only the halves in them must be finite."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = draw.integers(0, 256, (rows, 2, size), dtype=np.uint8)
    places = {TYPES.Q4_K: (0, 2), TYPES.Q5_K: (0, 2), TYPES.Q6_K: (208,)}[kind]
    for place in places:
        halves = (draw.standard_normal((rows, 2)) / 64).astype(np.float16)
        blocks[:, :, place : place + 2] = halves.view(np.uint8).reshape(rows, 2, 2)
    return blocks.reshape(rows, 2 * size)


def main():
    draw = np.random.default_rng(1)
    writer = gguf.GGUFWriter(str(HERE / "blocks.gguf"), "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_string("general.description", "Größe")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "<s>"])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5, 2.5])
    expected = {}
    plain = draw.standard_normal((3, 5)).astype(np.float32)
    for name, value in (("F32", plain), ("F16", plain.astype(np.float16)), ("F64", plain.astype(np.float64) / 3)):
        writer.add_tensor(name, value)
        expected[name] = value.astype(np.float32)
    for kind in (TYPES.BF16, TYPES.Q4_0, TYPES.Q4_1, TYPES.Q5_0, TYPES.Q5_1, TYPES.Q8_0):
        data = quantize(draw.standard_normal((3, 96)).astype(np.float32), kind)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        expected[kind.name] = dequantize(data, kind)
    for kind in (TYPES.Q4_K, TYPES.Q5_K, TYPES.Q6_K):
        data = random_blocks(draw, 3, kind)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        expected[kind.name] = dequantize(data, kind)
    writer.add_tensor("I32", np.arange(4, dtype=np.int32))
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    expected["cube"] = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file({name: np.ascontiguousarray(value) for name, value in expected.items()}, str(HERE / "blocks.safetensors"))


if __name__ == "__main__":
    main()
