"""Matrix products on the soft NPU against NumPy's float32 product of the same shape.

The ratio is anynpu's time over NumPy's: `rknn_matmul_run` through the shared library with B in each
layout, and `Matmul.run`, which also copies A in and C out. NumPy's integer product is shown once:
it has no BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.rknn import Matmul
from anynpu.soft.cabi.build import library_folder

from .measure import Comparison, compare

GOAL = 1.3
SHAPES = ((1, 4096, 4096), (8, 4096, 4096), (256, 4096, 4096))
LAYOUTS = ("NATIVE", "NORM", "TP_NORM")
INTEGERS, FLOATS = "INT8_MM_INT8_TO_INT32", "FLOAT16_MM_FLOAT16_TO_FLOAT32"


def run(rounds: int) -> Iterator[Comparison]:
    """Each type, shape and layout; the goal is for int8."""
    rounds = max(rounds // 4, 3)
    for kind in (INTEGERS, FLOATS):
        for shape in SHAPES:
            for layout in LAYOUTS:
                yield from _measure(kind, shape, layout, rounds)
    yield _integers_of_numpy(max(rounds // 4, 1))


def _measure(
    kind: str, shape: tuple[int, int, int], layout: str, rounds: int
) -> Iterator[Comparison]:
    a, b = _matrices(kind, shape)
    wide = a.astype(np.float32), b.astype(np.float32)
    library = library_folder() / "librknnrt.so"
    with Matmul(*shape, type=kind, b_layout=layout, library=library) as product:
        product.run(a, b)
        handle, call = product.handle, product.library.rknn_matmul_run
        name = f"{kind.partition('_')[0].lower()} {'x'.join(map(str, shape))} {layout}"
        goal = GOAL if kind == INTEGERS else None
        ours: list[tuple[str, Any]] = [("rknn_matmul_run", lambda: call(handle))]
        if layout == LAYOUTS[0]:
            ours.append(("Matmul.run", lambda: product.run(a)))
        for label, function in ours:
            yield compare(
                f"{label} / float32, {name}",
                function,
                lambda: np.matmul(*wide),
                rounds=rounds,
                goal=goal,
            )


def _integers_of_numpy(rounds: int) -> Comparison:
    shape = (8, 4096, 4096)
    a, b = _matrices(INTEGERS, shape)
    wide = a.astype(np.int32), b.astype(np.int32)
    with Matmul(*shape) as product:
        product.set_b(b)
        return compare(
            "Matmul.run / NumPy's int32 product, int8 8x4096x4096",
            lambda: product.run(a),
            lambda: np.matmul(*wide),
            rounds=rounds,
        )


def _matrices(kind: str, shape: tuple[int, int, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    m, k, n = shape
    rng = np.random.default_rng(0)
    if kind == INTEGERS:
        return (
            rng.integers(-128, 128, (m, k), dtype=np.int8),
            rng.integers(-128, 128, (k, n), dtype=np.int8),
        )
    return (
        rng.uniform(-1, 1, (m, k)).astype(np.float16),
        rng.uniform(-1, 1, (k, n)).astype(np.float16),
    )
