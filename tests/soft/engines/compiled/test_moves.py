"""What NumPy moves is what ONNX Runtime moves; the rest is left to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu.soft.engines.compiled.moves import compute_with_numpy
from anynpu.soft.engines.compiled.sessions import OneNode, compute_with_onnxruntime
from anynpu.soft.engines.work import Budget

from .parts import cpu_node

VALUES = np.random.default_rng(3).normal(size=(2, 3, 5, 4)).astype(np.float32)
LAST = -(2**31)


def one_slice(
    starts: Sequence[int], ends: Sequence[int], *more: Sequence[int], results: Any
) -> OneNode:
    constants = {f"c{i}": np.array(each) for i, each in enumerate((starts, ends, *more))}
    return OneNode(
        "Slice", ["input0", *constants], ["y"], constants, [(VALUES.dtype, VALUES.shape)], [results]
    )


def one_move(
    op_type: str, shapes: Sequence[tuple[int, ...]], results: Any, **attributes: Any
) -> OneNode:
    sources = [(np.dtype(np.float32), shape) for shape in shapes]
    names = [f"input{place}" for place in range(len(shapes))]
    return OneNode(op_type, names, ["y"], {}, sources, [results], attributes)


MOVES = [
    one_slice([-1], [LAST], [1], [-1], results=(2, 3, 5, 4)),
    one_slice([1, 0], [9, -1], [2, 3], results=(2, 3, 4, 3)),
    one_slice([0, 1], [1, 3], results=(1, 2, 5, 4)),
    one_slice([4, -2], [0, LAST], [2, -1], [-2, -1], results=(2, 3, 2, 3)),
    one_slice([9], [-9], [2], [-3], results=(2, 3, 2, 4)),
    one_slice([-9], [9], [2], [3], results=(2, 3, 2, 4)),
    one_move("Transpose", [VALUES.shape], (3, 4, 2, 5), perm=[1, 3, 0, 2]),
    one_move("Concat", [VALUES.shape, (2, 7, 5, 4)], (2, 10, 5, 4), axis=1),
    one_move("Concat", [VALUES.shape, (2, 3, 5, 1), VALUES.shape], (2, 3, 5, 9), axis=-1),
]


@pytest.mark.parametrize("one", MOVES, ids=lambda one: one.op_type)
def test_values_are_where_onnx_has_them(one: OneNode) -> None:
    rng = np.random.default_rng(4)
    given = [rng.normal(size=shape).astype(dtype) for dtype, shape in one.sources]
    node = cpu_node(one.op_type, (0,), (1,))
    mine = compute_with_numpy(node, one, Budget())
    assert mine is not None
    (found,) = mine(given)
    (expected,) = compute_with_onnxruntime(node, one, Budget())(given)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert found.flags.c_contiguous
    assert not np.may_share_memory(found, given[0])


@pytest.mark.parametrize(
    "one",
    [
        one_slice([-9], [LAST], [2], [-1], results=(2, 3, 1, 4)),
        one_slice([0], [2], [4], results=(2, 3, 5, 4)),
        one_slice([0, 0], [2, 2], [1, 1], results=(2, 2, 5, 4)),
        one_slice([0], [2, 3], [1], results=(2, 2, 5, 4)),
        one_slice([0], [2], [1], [0], results=(2, 2, 5, 4)),
        one_slice([0], [2], [1], results=(2, 3, 5, 4)),
        one_move("Transpose", [VALUES.shape], (4, 5, 3, 2)),
        one_move("Transpose", [VALUES.shape], (3, 4, 2, 5), perm=[1, 3, 0, 0]),
        one_move("Concat", [VALUES.shape, VALUES.shape], (2, 6, 5, 4)),
        one_move("Concat", [VALUES.shape, (2, 3, 5, 5)], (2, 6, 5, 4), axis=1),
        one_move("Concat", [VALUES.shape, VALUES.shape], (2, 6, 5, 4), axis=4),
        one_move("Exp", [VALUES.shape], VALUES.shape),
    ],
)
def test_the_rest_is_left_to_onnx_runtime(one: OneNode) -> None:
    assert compute_with_numpy(cpu_node(one.op_type, (0,), (1,)), one, Budget()) is None


def test_moves_count_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_MAX_WORK", "1e6")
    with pytest.raises(anynpu.ModelError, match=r"CPU node 0 .* of type Transpose"):
        compute_with_numpy(cpu_node("Transpose", (0,), (1,)), MOVES[6], Budget())


def test_nothing_of_onnx_is_imported_for_them() -> None:
    program = (
        "import sys, anynpu.soft.engines.compiled.program\n"
        "assert not {'onnx', 'onnxruntime'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
