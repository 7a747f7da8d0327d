"""Damaged soft `.nb` files: their tables changed, or the ONNX file inside."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path

from anynpu.soft.build import BuildOptions, build_file
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg import writer

from . import onnx_files

_EDGES = (0, 1, 2, 3, 5, 7, 8, 15, 63, 64, 255, 256, 65535, 65536, 0x7FFFFFFF, 0xFFFFFFFF)
_CHIPS = ("t527", "a733", "v853")


@cache
def sound() -> tuple[tuple[str, bytes, int], ...]:
    """Files for each chip, and where the ONNX file begins in them."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, onnx in onnx_files.sound():
            if name in ("custom", "dynamic", "passes"):
                continue
            for chip in _CHIPS:
                target = Path(folder, "net.nb")
                build_file(onnx, target, BuildOptions(soc=chip))
                data = target.read_bytes()
                found.append((f"{name}_{chip}", data, len(data) - len(nbg.read(data).onnx or b"")))
    return tuple(found)


def damaged(source: random.Random) -> tuple[str, bytes]:
    """A file's name and its bytes: words of the header and the tables changed, or other ONNX."""
    name, data, onnx = source.choice(sound())
    if source.randrange(5) == 0:
        read = nbg.read(data)
        _, inner = onnx_files.damaged(source)
        return name, writer.write_soft(
            inner, name=read.name, target=read.target, cores=read.cores, inputs=read.inputs,
            outputs=read.outputs, layers=[layer.name for layer in read.layers],
        )  # fmt: skip
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 3))):
        place = 4 * source.randrange(onnx // 4)
        old = int.from_bytes(changed[place : place + 4], "little")
        way = source.randrange(4)
        new = (
            old ^ 1 << source.randrange(32),
            old + source.randint(-20, 20),
            source.choice(_EDGES),
            source.getrandbits(32),
        )[way]
        changed[place : place + 4] = (new & 0xFFFFFFFF).to_bytes(4, "little")
    return name, bytes(changed)
