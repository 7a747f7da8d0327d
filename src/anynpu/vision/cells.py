"""A network's output as channels of cells, in the form in which the device gives it.

A detector's output has a cell for each place where a thing may be, and channels that say what it
is. Most cells hold nothing. So a threshold is compared with the values as they are, integers for a
quantised network, and only cells that reach it become real values.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from ..native.kernels import cells_reaching
from ..tensor import Layout, Quantization

Real = NDArray[np.float32]
Indices = NDArray[np.intp]


class Activation(enum.Enum):
    """What is still to be done to a value to make it a score; both rise with the value."""

    NONE = "none"
    SIGMOID = "sigmoid"

    def apply(self, values: Real) -> Real:
        """The scores of values, as float32."""
        if self is Activation.NONE:
            return values
        with np.errstate(over="ignore"):
            scores: Real = np.float32(1) / (np.float32(1) + np.exp(-values))
        return scores

    def least(self, score: float) -> float:
        """A value a little under the least one that reaches a score."""
        if self is Activation.NONE:
            return score
        if not 0 < score < 1:
            return -np.inf if score <= 0 else np.inf
        return float(np.log(score / (1 - score))) - 1e-3


@dataclass(frozen=True)
class Output:
    """One output of a network after a run.

    `shape` is the model's own, with channels second, and `values` the array in `layout`: of that
    shape, or NC1HWC2 blocks. `quantization` is None where values are real.
    """

    name: str
    shape: tuple[int, ...]
    values: NDArray[Any]
    layout: Layout
    quantization: Quantization | None

    def planes(self) -> Cells:
        """Channels are the second axis, all axes after it cells."""
        if self.layout is Layout.NC1HWC2:
            return BlockedCells(self.values, self.shape[1], self.quantization)
        if self.layout is Layout.NHWC:
            return PlanarCells(self.values.reshape(-1, self.shape[1]).T, self.quantization)
        return PlanarCells(self.values.reshape(self.shape[1], -1), self.quantization)

    def rows(self) -> Cells:
        """Channels are the last axis, all axes before it cells."""
        if self.layout is Layout.NC1HWC2:
            from ..layouts import nc1hwc2_to_nchw

            values = nc1hwc2_to_nchw(self.values, self.shape[1]).reshape(self.shape)
        else:
            values = self.values
        return PlanarCells(values.reshape(-1, self.shape[-1]).T, self.quantization)

    def real(self) -> Real:
        """All values, as float32 of `shape`."""
        return self.planes().all_real().reshape(self.shape)

    def __str__(self) -> str:
        return f"{self.name} {'x'.join(map(str, self.shape))}"


class Cells(ABC):
    """Channels by cells. Channels are given as a `slice` with start and stop."""

    def __init__(self, values: NDArray[Any], quantization: Quantization | None) -> None:
        if values.dtype == np.float16:
            values = values.astype(np.float32)
        self._values, self.quantization = values, quantization

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values as they are stored."""
        return self._values.dtype

    @property
    @abstractmethod
    def channels(self) -> int:
        """How many channels there are."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many cells there are."""

    @abstractmethod
    def stored(self, channels: slice, cells: Indices) -> NDArray[Any]:
        """The values (cells, channels) as they are stored: a new array."""

    @abstractmethod
    def _channel(self, channel: int) -> NDArray[Any]:
        """A view of the values of a channel."""

    @abstractmethod
    def _at_least(self, channels: slice, value: Any) -> Indices:
        """The cells, rising, of which any of some channels is stored as at least `value`."""

    def real(self, channels: slice, cells: Indices) -> Real:
        """The real values (cells, channels)."""
        return self._real(self.stored(channels, cells))

    def all_real(self) -> Real:
        """The real values (channels, cells) of all of them."""
        everywhere: Real = self.real(slice(0, self.channels), np.arange(self.count)).T
        return everywhere

    def reaching(self, channels: slice, score: float, activation: Activation) -> Indices:
        """The cells of which any of some channels has at least a score.

        Of float values some may be among them that are below it by rounding.
        """
        if self.quantization is None:
            return self._at_least(channels, np.float32(activation.least(score)))
        least = least_integer(score, activation, self._values.dtype, self.quantization)
        if least > np.iinfo(self._values.dtype).max:
            return np.empty(0, np.intp)
        return self._at_least(channels, self._values.dtype.type(least))

    def best(self, channels: slice, cells: Indices, activation: Activation) -> tuple[Indices, Real]:
        """For each of some cells its best of some channels, the first of equals, and its score."""
        stored = self.stored(channels, cells)
        best = stored.argmax(axis=1)
        found = stored[np.arange(len(cells)), best]
        return best, activation.apply(self._real(found))

    def most(self, activation: Activation) -> float:
        """The largest score that can be stored."""
        if self.quantization is None:
            return np.inf if activation is Activation.NONE else 1.0
        return float(_scores(activation, self._values.dtype, self.quantization)[-1])

    def range(self, channel: int) -> tuple[float, float]:
        """The least and the largest real value of a channel."""
        values = self._channel(channel)
        low, high = self._real(np.array([values.min(), values.max()])).tolist()
        return low, high

    @property
    def step(self) -> float:
        """How far apart the real values are that can be stored; 0 for floats."""
        return 0.0 if self.quantization is None else self.quantization.scale

    def _real(self, stored: NDArray[Any]) -> Real:
        return _dequantize(stored, self.quantization)


class PlanarCells(Cells):
    """An array of (channels, cells), in any order in memory."""

    @property
    def channels(self) -> int:
        return int(self._values.shape[0])

    @property
    def count(self) -> int:
        return int(self._values.shape[1])

    def stored(self, channels: slice, cells: Indices) -> NDArray[Any]:
        chosen: NDArray[Any] = self._values[channels][:, cells].T
        return chosen

    def _channel(self, channel: int) -> NDArray[Any]:
        own: NDArray[Any] = self._values[channel]
        return own

    def _at_least(self, channels: slice, value: Any) -> Indices:
        if channels.stop - channels.start == 1:
            return np.flatnonzero(self._values[channels.start] >= value)
        if self._values.strides[0] < self._values.strides[1]:  # a cell's channels lie side by side
            blocks = self._values.T[np.newaxis]
        else:
            blocks = self._values[:, :, np.newaxis]
        return cells_reaching(blocks, channels.start, channels.stop, value)


class BlockedCells(Cells):
    """Channel blocks as the NPU writes them: (1, C1, H, W, C2)."""

    def __init__(
        self, values: NDArray[Any], channels: int, quantization: Quantization | None
    ) -> None:
        _, c1, height, width, self._block = values.shape
        super().__init__(values.reshape(c1, height * width, self._block), quantization)
        self._channels = channels

    @property
    def channels(self) -> int:
        return self._channels

    @property
    def count(self) -> int:
        return int(self._values.shape[1])

    def stored(self, channels: slice, cells: Indices) -> NDArray[Any]:
        first = channels.start // self._block
        blocks = self._values[first : -(-channels.stop // self._block)].take(cells, axis=1)
        start = channels.start - first * self._block
        lanes = slice(start, start + channels.stop - channels.start)
        rows = blocks.transpose(1, 0, 2).reshape(len(cells), len(blocks) * self._block)
        chosen: NDArray[Any] = rows[:, lanes]
        return chosen

    def _channel(self, channel: int) -> NDArray[Any]:
        own: NDArray[Any] = self._values[channel // self._block, :, channel % self._block]
        return own

    def _at_least(self, channels: slice, value: Any) -> Indices:
        return cells_reaching(self._values, channels.start, channels.stop, value)


@lru_cache(maxsize=256)
def least_integer(
    score: float, activation: Activation, dtype: np.dtype[Any], quantization: Quantization
) -> int:
    """The least integer of `dtype` whose score is at least `score`; one beyond the dtype if none.

    Every integer is dequantised to find it, so that comparing integers with it gives just what
    comparing dequantised values would.
    """
    scores = _scores(activation, dtype, quantization)
    return int(np.iinfo(dtype).min) + int(np.searchsorted(scores, np.float32(score)))


def is_no_opinion(
    score: float, activation: Activation, dtype: np.dtype[Any], quantization: Quantization
) -> bool:
    """Whether a threshold is meant to lie at sigmoid(0) = 0.5 or above, and that value passes it.

    A quantised 0.5 may be dequantised to a little more.
    """
    if score < 0.5:
        return False
    scores = _scores(activation, dtype, quantization)
    away = np.abs(scores - np.float32(0.5))
    nearest = np.flatnonzero(away <= away.min() * 1.001 + 1e-7)[-1]  # ties are rounded up
    return bool(scores[nearest] >= np.float32(score))


@lru_cache(maxsize=256)
def _scores(activation: Activation, dtype: np.dtype[Any], quantization: Quantization) -> Real:
    limits = np.iinfo(dtype)
    if limits.bits > 16:
        raise TensorError(f"an output quantised to {dtype} can't be compared: use int8 or int16")
    stored = np.arange(limits.min, limits.max + 1).astype(dtype)
    return activation.apply(_dequantize(stored, quantization))


def _dequantize(stored: NDArray[Any], quantization: Quantization | None) -> Real:
    if quantization is None:
        return stored.astype(np.float32, copy=False)
    from ..layouts import dequantize_affine

    return dequantize_affine(
        np.ascontiguousarray(stored), quantization.scale, quantization.zero_point
    )
