"""Operators that give values other places, in NumPy: a file without others needs no ONNX Runtime.

Importing it, and onnx, takes longer than loading many a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.rknn.model import Node
from ..node_work import element_work
from ..work import PER_CPU_NODE, Budget
from .sessions import Compute, OneNode, place_of

NUMPY = "NumPy"
"""What runs a node that is computed here by arrays."""

_Move = Callable[[Sequence[NDArray[Any]]], NDArray[Any]]


def compute_with_numpy(node: Node, one: OneNode, budget: Budget) -> Compute | None:
    """From the sources' values to new arrays; None for what ONNX Runtime is to compute or refuse.

    That is every other operator, operands that aren't constants, attributes that the file lacks,
    and results of other shapes than the file's. Raises `ModelError` for more work than there may
    be.
    """
    shapes = [shape for _, shape in one.sources]
    prepare = _MOVES.get(one.op_type)
    if prepare is None or len(one.results) != 1 or not shapes:
        return None
    if list(one.inputs[: len(shapes)]) != [f"input{place}" for place in range(len(shapes))]:
        return None
    move = prepare(one, shapes)
    if move is None:
        return None
    given = [np.broadcast_to(np.zeros((), dtype), shape) for dtype, shape in one.sources]
    if move(given).shape != tuple(one.results[0]):
        return None
    work = element_work(one.op_type, one.attributes, shapes, one.results)
    budget.take(PER_CPU_NODE + work, place_of(node))
    return lambda values: [np.array(move(values), order="C")]


def slices(shape: Sequence[int], constants: Sequence[NDArray[Any]]) -> Mapping[int, slice] | None:
    """What a Slice with its starts, ends, axes and steps takes of which axis.

    None where NumPy has no such slice, and where the operands don't fit together.
    """
    numbers = [constant.astype(np.int64).reshape(-1).tolist() for constant in constants]
    starts, ends = numbers[:2]
    axes = numbers[2] if len(numbers) > 2 else list(range(len(starts)))
    steps = numbers[3] if len(numbers) > 3 else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        return None
    if not all(-len(shape) <= axis < len(shape) for axis in axes):
        return None
    axes = [axis % len(shape) for axis in axes]
    if len(set(axes)) != len(axes):
        return None
    found = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 0 and start < -shape[axis]:
            return None  # ONNX begins with the first element then, NumPy with none
        first, last, _ = slice(start, end, step).indices(shape[axis])
        found[axis] = slice(first, None if last < 0 else last, step)
    return found


def _slice(one: OneNode, shapes: Sequence[tuple[int, ...]]) -> _Move | None:
    names = one.inputs[1:]
    if len(shapes) != 1 or len(names) not in (2, 3, 4) or not one.constants.keys() >= set(names):
        return None
    taken = slices(shapes[0], [one.constants[name] for name in names])
    if taken is None:
        return None
    places = tuple(taken.get(axis, slice(None)) for axis in range(len(shapes[0])))
    return lambda values: values[0][places]


def _transpose(one: OneNode, shapes: Sequence[tuple[int, ...]]) -> _Move | None:
    order = one.attributes.get("perm")
    if len(one.inputs) != 1 or not isinstance(order, list | tuple):
        return None
    if sorted(order) != list(range(len(shapes[0]))):
        return None
    return lambda values: values[0].transpose(order)


def _concat(one: OneNode, shapes: Sequence[tuple[int, ...]]) -> _Move | None:
    axis, first = one.attributes.get("axis"), shapes[0]
    if len(one.inputs) != len(shapes) or not isinstance(axis, int):
        return None
    if not -len(first) <= axis < len(first) or len({dtype for dtype, _ in one.sources}) != 1:
        return None
    axis %= len(first)
    around = {(*shape[:axis], None, *shape[axis + 1 :]) for shape in shapes}
    return (lambda values: np.concatenate(values, axis)) if len(around) == 1 else None


_MOVES: Mapping[str, Callable[[OneNode, Sequence[tuple[int, ...]]], _Move | None]] = {
    "Concat": _concat,
    "Slice": _slice,
    "Transpose": _transpose,
}
