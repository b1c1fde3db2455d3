#!/usr/bin/env python3
"""Writes tests/data/quant/vectors.bin: random blocks of every GGUF type and what the gguf package makes of them.

    pip install gguf==0.19.0 numpy && python tests/quant/make_vectors.py

Layout, little endian: for each type: u8 length of the name, the name, u32 bytes of blocks, u32 weights, the blocks, the weights as
float32. Scales are set to ordinary sizes so that no weight is infinite; everything else is random from a fixed seed.
"""
import os
import struct

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

# Where a block keeps its float16 numbers.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}


def main():
    rng = np.random.default_rng(20240607)
    out = b""
    for name, halves in HALVES.items():
        kind = GGMLQuantizationType[name]
        weights, size = GGML_QUANT_SIZES[kind]
        count = 6 if weights == 256 else 24
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in halves:
            scale = (rng.random(count) * 2 - 1).astype(np.float16)
            blocks[:, at:at + 2] = scale.view(np.uint8).reshape(count, 2)
        if name == "MXFP4":
            blocks[:, 0] = rng.integers(100, 140, count)
            blocks[:3, 0] = [0, 1, 2]
        values = quants.dequantize(blocks, kind).astype(np.float32)
        coded = name.lower().encode()
        out += struct.pack("<B", len(coded)) + coded + struct.pack("<II", blocks.size, values.size)
        out += blocks.tobytes() + values.tobytes()
    folder = os.path.join(os.path.dirname(__file__), "..", "data", "quant")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "vectors.bin"), "wb") as file:
        file.write(out)


if __name__ == "__main__":
    main()
