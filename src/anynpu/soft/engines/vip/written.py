"""Reads of memory that was never written, found before anything runs."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...formats.nbg.model import Nbg, Source
from .memory import MemoryMap, Scattered, Window
from .operation import OperationContext
from .refusal import Refusal
from .tasks import BlockTranspose, Task

_Scalar = TypeVar("_Scalar", np.bool_, np.int32)
_GIVEN = (Source.INPUT, Source.CONSTANTS)
"""What is there before the first operation."""


class Written:
    """Which bytes of memory something is known of, followed from operation to operation."""

    def __init__(self, layout: MemoryMap) -> None:
        # Zeros that nobody touches take no memory, however large a pool a file says it has.
        self._known = {
            space: np.zeros(size, np.bool_)
            for space, size in layout.spaces()
            if space.source not in _GIVEN
        }

    def follow(self, task: Task, context: OperationContext) -> None:
        """Raises `Refusal` for an operation that reads a byte of which nothing is known."""
        known = self._known
        if isinstance(task, BlockTranspose):
            # It copies whole buffers, and what is in their gaps stays as unknown as it was.
            if task.target.space in known:
                put(known[task.target.space], task.target, self._of(task.source))
            return
        for window in task.reads():
            if window.space in known and not at(known[window.space], window).all():
                raise Refusal(
                    f"{context.title} reads bytes of {window.space} that were never written"
                )
        for target in task.writes():
            if target.space in known:
                put(known[target.space], target)

    def _of(self, window: Window) -> NDArray[np.bool_] | int:
        """Which bytes of a window are known: a copy, or 1 for all."""
        known = self._known.get(window.space)
        return True if known is None else at(known, window).copy()

    def check_outputs(self, model: Nbg) -> None:
        """Raises `Refusal` for an output that isn't written as a whole."""
        for space, content in self._known.items():
            if space.source is Source.OUTPUT and not content.all():
                name = model.outputs[space.number].name
                raise Refusal(f"no operation writes all of output {name!r}")


def at(content: NDArray[_Scalar], window: Window) -> NDArray[_Scalar]:
    """What an array with an element for each byte of a space has of a window: not to be written."""
    if 0 in window.shape:
        return content[:0]
    if not window.wraps:
        return _view(content, window)
    taken = np.empty(window.shape, content.dtype)
    for place, piece in window.pieces():
        taken[place] = _view(content, piece)
    return taken


def put(
    content: NDArray[_Scalar],
    target: Window | Scattered,
    values: NDArray[_Scalar] | int = True,
) -> None:
    """Set those elements: each to its own, or all to one value."""
    if isinstance(target, Scattered):
        if not isinstance(values, np.ndarray) and target.is_solid:
            content[slice(*target.extent)] = values
            return
        places = target.places.numbers()
        for byte in range(target.item):
            content[places + byte] = values
    elif 0 not in target.shape:
        for place, piece in target.pieces():
            _view(content, piece)[...] = values[place] if isinstance(values, np.ndarray) else values


def _view(content: NDArray[_Scalar], window: Window) -> NDArray[_Scalar]:
    strides = tuple(content.itemsize * stride for stride in window.strides)
    offset = content.itemsize * window.offset
    view: NDArray[_Scalar] = np.ndarray(window.shape, content.dtype, content, offset, strides)
    return view
