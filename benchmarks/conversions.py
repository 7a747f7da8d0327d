"""A YOLO head's output, int8 channel blocks to float32 planes: the kernel against plain C loops."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import anynpu
from anynpu.native.compiler import compile_shared
from anynpu.native.memory import address_of

from .measure import Comparison, compare

SOURCE = Path(__file__).parent / "reference" / "unpack.c"
CHANNELS, SIZE, BLOCK = 255, 80, 16
SCALE, ZERO_POINT = 0.1, 3
BUILDS: tuple[tuple[str, list[str], float | None], ...] = (
    ("scalar", ["-O3", "-fno-tree-vectorize"], 0.25),
    ("vectorised by the compiler", ["-O3"], None),
)


class _Blocks(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("channels", "height", "width", "block")]
    _fields_ += [("scale", ctypes.c_float), ("zero_point", ctypes.c_int32)]


def run(rounds: int) -> Iterator[Comparison]:
    """Against the loops, and against copying as many bytes as the conversion reads and writes."""
    blocks = np.random.default_rng(0).integers(-128, 128, (1, 16, SIZE, SIZE, BLOCK), np.int8)
    planes = np.empty((1, CHANNELS, SIZE, SIZE), np.float32)
    expected = np.empty_like(planes)
    how = _Blocks(CHANNELS, SIZE, SIZE, BLOCK, SCALE, ZERO_POINT)
    name = f"int8 1x{CHANNELS}x{SIZE}x{SIZE} to float32"

    def kernel() -> object:
        return anynpu.dequantize_nc1hwc2(blocks, CHANNELS, SCALE, ZERO_POINT, planes)

    with tempfile.TemporaryDirectory() as folder:
        for what, options, goal in BUILDS:
            library = Path(folder) / f"{what}.so"
            compile_shared(SOURCE, library, options)
            loops = ctypes.CDLL(str(library)).unpack
            arrays = map(ctypes.c_void_p, map(address_of, (blocks, expected)))
            call = partial(loops, ctypes.byref(how), *arrays)
            title = f"{name} / C loops, {what}"
            yield compare(title, kernel, call, rounds=rounds, repeat=10, goal=goal)
    kernel()
    assert np.array_equal(planes, expected), "both convert the same"
    # A copy of n bytes reads n and writes n.
    half = np.empty((blocks.nbytes + planes.nbytes) // 2, np.uint8)
    copy = partial(np.copyto, np.empty_like(half), half)
    yield compare(f"{name} / a copy of as many bytes", kernel, copy, rounds=rounds, repeat=10)
