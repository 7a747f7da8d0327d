"""SSD: offsets from prior boxes, as TensorFlow's MobileNet detectors have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..cells import Activation, Cells, Output, Real
from .head import Candidates, Head, Size, corners, found_activation, select

_FACTORS = np.array([10, 10, 5, 5], np.float32)
"""What the offsets of y, x, height and width are multiplied by in training."""
_RATIOS = (1.0, 2.0, 0.5, 3.0, 1 / 3)
_SMALLEST, _LARGEST, _MAPS = 0.2, 0.95, 6
_FINEST_STRIDE = 16


@dataclass(frozen=True, eq=False)
class Ssd(Head):
    """Boxes (1, priors, 4) and scores (1, priors, 1 + classes), of which class 0 is nothing.

    A box is the offsets of its y, x, height and width from a prior. `priors` (n, 4) are y and x of
    the centre, height and width, in parts of the picture; None for those of MobileNet-SSD.
    """

    priors: NDArray[np.floating] | None = None

    @property
    def wants(self) -> str:
        return "(1, priors, 4) and (1, priors, 1 + classes)"

    @property
    def usual_classes(self) -> int:
        return 91

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        if len(outputs) != 2:
            return False
        boxes, scores = (_rows(output) for output in outputs)
        count = len(self._priors(size))
        return (
            boxes.shape[1:] == (count, 4)
            and len(scores.shape) == 3
            and scores.shape[1] == count
            and scores.shape[2] > 1
        )

    def classes(self, outputs: Sequence[Output]) -> int:
        return _rows(outputs[1]).shape[2]

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        cells = _rows(outputs[1]).rows()
        activation = found_activation([(cells, channel) for channel in range(cells.channels)])
        return [(cells, slice(1, cells.channels), activation)]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        ((cells, channels, activation),) = self.scores(outputs)
        found, best, scores = select(cells, channels, threshold, activation)
        offsets = _rows(outputs[0]).rows().real(slice(0, 4), found) / _FACTORS
        priors = self._priors(size)[found]
        centre = offsets[:, :2] * priors[:, 2:] + priors[:, :2]
        extent = np.exp(offsets[:, 2:]) * priors[:, 2:]
        upright = np.concatenate([centre[:, ::-1], extent[:, ::-1]], axis=1)
        boxes = corners(upright) * np.array(size * 2, np.float32)
        return Candidates(boxes.astype(np.float32), scores, best + 1)

    def _priors(self, size: Size) -> Real:
        if self.priors is None:
            return mobilenet_priors(size)
        return np.asarray(self.priors, np.float32)


@lru_cache(maxsize=8)
def mobilenet_priors(size: Size) -> Real:
    """The priors of TensorFlow's SSD on MobileNet v1 and v2 for an input's size, (n, 4).

    Six maps, each half as large as the one before it. A cell has six boxes: scales rise evenly from
    0.2 to 0.95, with five ratios of the sides, and a square of the scale between two maps. The
    first map has three, the first of them half as large.
    """
    steps = [_SMALLEST + (_LARGEST - _SMALLEST) * n / (_MAPS - 1) for n in range(_MAPS)] + [1.0]
    width, height = (math.ceil(side / _FINEST_STRIDE) for side in size)
    maps = []
    for number in range(_MAPS):
        shapes = [(steps[number], ratio) for ratio in _RATIOS]
        shapes.append((math.sqrt(steps[number] * steps[number + 1]), 1.0))
        if number == 0:
            shapes = [(0.1, 1.0), (steps[0], 2.0), (steps[0], 0.5)]
        maps.append(_map(width, height, shapes))
        width, height = math.ceil(width / 2), math.ceil(height / 2)
    priors = np.concatenate(maps).astype(np.float32)
    priors.setflags(write=False)
    return priors


def _map(width: int, height: int, shapes: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    sides = np.array([(s / math.sqrt(ratio), s * math.sqrt(ratio)) for s, ratio in shapes])
    y, x = np.meshgrid(
        (np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij"
    )
    centres = np.stack([y.ravel(), x.ravel()], axis=1)
    both = [np.repeat(centres, len(sides), axis=0), np.tile(sides, (len(centres), 1))]
    return np.concatenate(both, axis=1)


def _rows(output: Output) -> Output:
    """(1, n, 1, m) as (1, n, m)."""
    from dataclasses import replace

    shape = output.shape
    if len(shape) != 4 or shape[2] != 1 or output.values.ndim != 4:
        return output
    return replace(
        output,
        shape=(shape[0], shape[1], shape[3]),
        values=output.values.reshape(shape[0], shape[1], shape[3]),
    )
