"""Strategies for damaged soft `.nb` files: their tables changed, or the ONNX file inside."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

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


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file's name and its bytes: words of the header and the tables changed, or other ONNX."""
    name, data, onnx = draw(st.sampled_from(sound()))
    if draw(st.integers(0, 4)) == 0:
        read = nbg.read(data)
        _, inner = draw(onnx_files.damaged())
        return name, writer.write_soft(
            inner, name=read.name, target=read.target, cores=read.cores, inputs=read.inputs,
            outputs=read.outputs, layers=[layer.name for layer in read.layers],
        )  # fmt: skip
    changed = bytearray(data)
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        place = 4 * draw(st.integers(0, onnx // 4 - 1))
        old = int.from_bytes(changed[place : place + 4], "little")
        way = draw(st.integers(0, 3))
        new = (
            old ^ 1 << draw(st.integers(0, 31)),
            old + draw(st.integers(-20, 20)),
            draw(st.sampled_from(_EDGES)),
            int.from_bytes(draw(st.binary(min_size=4, max_size=4)), "little"),
        )[way]
        changed[place : place + 4] = (new & 0xFFFFFFFF).to_bytes(4, "little")
    return name, bytes(changed)
