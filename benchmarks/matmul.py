"""Matrix products on the soft NPU against those of the same shape by others.

The ratio is anynpu's time over NumPy's float32 product: `rknn_matmul_run` through the shared
library with B in each layout, and `Matmul.run`, which also copies A in and C out. NumPy's integer
product is shown once: it has no BLAS. Products of int8 are compared with ONNX Runtime's
MatMulInteger too, as it is fastest: A has no sign, B is a constant that it has prepared before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.rknn import Matmul
from anynpu.soft.cabi.build import library_folder

from .measure import SPINNING, Comparison, compare

GOAL, INTEGER_GOAL = 1.3, 1.0
_REPEAT = 3
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
    for shape in SHAPES:
        yield from _against_onnxruntime(shape, rounds)
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


def _against_onnxruntime(shape: tuple[int, int, int], rounds: int) -> Iterator[Comparison]:
    """B in each layout, and A and C in blocks."""
    a, b = _matrices(INTEGERS, shape)
    theirs = _matmul_integer(a, b)
    library = library_folder() / "librknnrt.so"
    for b_layout, ac_layout in (*((each, "NORM") for each in LAYOUTS), ("NATIVE", "NATIVE")):
        with Matmul(
            *shape, type=INTEGERS, b_layout=b_layout, ac_layout=ac_layout, library=library
        ) as product:
            np.testing.assert_array_equal(product.run(a, b), theirs())
            handle, call = product.handle, product.library.rknn_matmul_run
            name = f"int8 {'x'.join(map(str, shape))} {b_layout}, A and C {ac_layout}"
            yield compare(
                f"rknn_matmul_run / MatMulInteger, {name}",
                functools.partial(call, handle),
                theirs,
                rounds=rounds,
                goal=INTEGER_GOAL,
                repeat=_REPEAT,
                pause=SPINNING,
            )


def _matmul_integer(a: NDArray[Any], b: NDArray[Any]) -> Callable[[], NDArray[Any]]:
    """ONNX Runtime's product of a (m, k) and b (k, n), both int8; C is int32."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    shifted = (a.view(np.uint8) ^ 128).view(np.uint8)
    shape = a.shape[0], b.shape[1]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "zero"], ["c"])],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("c", TensorProto.INT32, shape)],
        [numpy_helper.from_array(b, "b"), numpy_helper.from_array(np.uint8(128), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda: session.run(None, {"a": shifted})[0]


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
