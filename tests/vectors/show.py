#!/usr/bin/env python3
"""Prints what files of frozen results hold: each case with its attributes, and its tensors with their first values.

    python3 show.py FILE.safetensors...
"""
import json
import struct
import sys
from pathlib import Path

CODES = dict(F32="f", F64="d", I32="i")


def show(path):
    data = Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    case = None
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        values = struct.iter_unpack("<" + CODES[entry["dtype"]], data[8 + length + begin : 8 + length + end])
        values = [value for value, in values]
        first = " ".join(f"{value:.9g}" for value in values[:4]) + (" ..." if len(values) > 4 else "")
        of, name = name.split("/", 1) if "/" in name else (path, name)
        if of != case:
            print(case := of)
        print(" ", name, f"{entry['dtype']} {shape}" if shape else "=", first)


for path in sys.argv[1:]:
    show(path)
