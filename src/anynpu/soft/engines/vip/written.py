"""Reads of memory that was never written, found before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...formats.nbg.model import Nbg, Source
from .memory import MemoryMap, Scattered, Window
from .refusal import Refusal
from .tasks import BlockTranspose, Task

_GIVEN = (Source.INPUT, Source.CONSTANTS)
"""What is there before the first operation."""


def check_written(
    layout: MemoryMap, model: Nbg, tasks: Sequence[Task], titles: Sequence[str]
) -> None:
    """Follow the operations in their order; raises `Refusal` for the first that reads a byte of
    which nothing is known, and for an output that isn't written as a whole.
    """
    # Zeros that nobody touches take no memory, however large a pool a file says it has.
    known = {
        space: (np.ones if space.source in _GIVEN else np.zeros)(size, np.bool_)
        for space, size in layout.spaces()
    }
    for task, title in zip(tasks, titles, strict=True):
        if isinstance(task, BlockTranspose):
            # It copies whole buffers, and what is in their gaps stays as unknown as it was.
            content = _at(known[task.source.space], task.source).copy()
            _set(known[task.target.space], task.target, content)
            continue
        for window in task.reads():
            if not _at(known[window.space], window).all():
                raise Refusal(f"{title} reads bytes of {window.space} that were never written")
        for target in task.writes():
            _set(known[target.space], target)
    for space, content in known.items():
        if space.source is Source.OUTPUT and not content.all():
            name = model.outputs[space.number].name
            raise Refusal(f"no operation writes all of output {name!r}")


def _at(content: NDArray[np.bool_], window: Window) -> NDArray[np.bool_]:
    if window.wraps:
        return content[window.offsets()]
    if 0 in window.shape:
        return content[:0]
    return np.lib.stride_tricks.as_strided(
        content[window.offset :], window.shape, window.strides, writeable=False
    )


def _set(
    content: NDArray[np.bool_],
    target: Window | Scattered,
    values: NDArray[np.bool_] | bool = True,
) -> None:
    if isinstance(target, Scattered):
        for byte in range(target.item):
            content[target.places + byte] = values
    elif target.wraps:
        content[target.offsets()] = values
    elif 0 not in target.shape:
        view = np.lib.stride_tricks.as_strided(
            content[target.offset :], target.shape, target.strides
        )
        view[...] = values
