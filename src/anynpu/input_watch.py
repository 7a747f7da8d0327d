"""Inputs that are probably not what they should be: said once, as a warning.

Values are looked at in the first feeds and then in every sixteenth, so that it costs nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import InputWarning
from .tensor import Layout, TensorInfo

_FIRST, _EVERY = 4, 16
_CHANNELS = (1, 3, 4)
_PIXEL_RANGE = 100.0
"""What takes real values beyond that takes pixels of 0..255, not of 0..1."""


class Normalized(Protocol):
    """What a model does to the values of an input before it quantises them."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_identity(self) -> bool: ...


Normalizations = Callable[[], Sequence[Normalized | None]]


class InputWatch:
    """Looks at the inputs of one model. Any thread may call it.

    `normalizations` tells, when it is needed, what the model does to each input; None where that
    isn't known.
    """

    def __init__(self, infos: Sequence[TensorInfo], normalizations: Normalizations) -> None:
        self._infos, self.normalizations = infos, normalizations
        self._feeds = 0
        self._said: set[tuple[int, str]] = set()

    def look(self, arrays: Sequence[NDArray[Any]], stacklevel: int) -> None:
        """Look at a feed; `stacklevel` is what who calls this would pass to `warnings.warn`."""
        number = self._feeds
        self._feeds = number + 1
        if number >= _FIRST and number % _EVERY:
            return
        for index, array in enumerate(arrays):
            if array.dtype.kind == "f" and array.size:
                self._look_at(index, array, stacklevel + 1)

    def _look_at(self, index: int, array: NDArray[Any], stacklevel: int) -> None:
        low, high = array.min(), array.max()
        info = self._infos[index]
        if np.isnan(low):
            self._say(
                index,
                "nan",
                f"input {info.name!r} takes numbers; {np.isnan(array).sum()} of the {array.size} "
                f"given are NaN, of which each runtime makes something else: find where they come "
                f"from, or replace them (np.nan_to_num)",
                stacklevel,
            )
        elif low >= 0 and high <= 1 and np.any(array % 1) and self._takes_pixels(index):
            self._say(
                index,
                "range",
                f"input {info.name!r} takes pixels of 0..255, which the model normalises itself; "
                f"those given lie in {float(low):.3g}..{float(high):.3g}: multiply them by 255, or "
                f"pass the picture as uint8",
                stacklevel,
            )

    def _takes_pixels(self, index: int) -> bool:
        """Whether an input is a picture whose values are those of bytes."""
        info = self._infos[index]
        if len(info.shape) != 4 or info.layout not in (Layout.NHWC, Layout.NCHW):
            return False
        if info.shape[3 if info.layout is Layout.NHWC else 1] not in _CHANNELS:
            return False
        if (index, "range") in self._said:
            return False
        known = self.normalizations()[index]
        if known is not None and not known.is_identity:
            return max(*known.mean, *known.std) > _PIXEL_RANGE / 10
        if info.quantization is None or info.dtype.numpy_name is None:
            return False
        bounds = np.iinfo(info.dtype.numpy.name)
        low, high = ((int(b) - info.zero_point) * info.scale for b in (bounds.min, bounds.max))
        return high > _PIXEL_RANGE and low > -high / 10

    def _say(self, index: int, what: str, text: str, stacklevel: int) -> None:
        if (index, what) not in self._said:
            self._said.add((index, what))
            warnings.warn(text, InputWarning, stacklevel=stacklevel + 2)
