"""Batches that are larger than the model's: divide them, and join what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from ..tensor import TensorInfo


class Parts:
    """The parts of a batch, each as large as the model takes; views but for a last one filled up.

    `samples` is how many there are in all.
    """

    def __init__(self, arrays: Sequence[NDArray[Any]], samples: int, size: int) -> None:
        self._arrays = arrays
        self.samples, self._size = samples, size

    def __iter__(self) -> Iterator[list[NDArray[Any]]]:
        for start in range(0, self.samples, self._size):
            yield [self._part(array, start) for array in self._arrays]

    def _part(self, array: NDArray[Any], start: int) -> NDArray[Any]:
        part = array[start : start + self._size]
        if len(part) == self._size:
            return part
        whole = np.zeros((self._size, *array.shape[1:]), array.dtype)
        whole[: len(part)] = part
        return whole


def split(arrays: Sequence[NDArray[Any]], infos: Sequence[TensorInfo], *, fills_up: bool) -> Parts:
    """Divide arrays along their first axis.

    Without `fills_up` the model has to take one sample at a time. Raises `TensorError` where the
    inputs don't have the same number of samples, or no first axis.
    """
    counts = {array.shape[0] if array.ndim else 0 for array in arrays}
    sizes = {info.shape[0] if info.shape else 0 for info in infos}
    if len(counts) != 1 or len(sizes) != 1 or min(counts | sizes) < 1:
        raise TensorError(
            f"a batch has the same number of samples, at least one, in every input; found "
            f"{[array.shape for array in arrays]} for inputs of {[info.shape for info in infos]}: "
            f"make their first axes equally long"
        )
    samples, size = counts.pop(), sizes.pop()
    if size != 1 and not fills_up:
        raise TensorError(
            f"the model takes {size} samples at once, so a batch can't be dispatched by ones; pass "
            f"batch='split' instead"
        )
    return Parts(arrays, samples, size)


def join(results: Sequence[Sequence[NDArray[Any]]], samples: int) -> list[NDArray[Any]]:
    """Each output's parts as one array, without what filled the last part up."""
    return [np.concatenate(parts)[:samples] for parts in zip(*results, strict=True)]
