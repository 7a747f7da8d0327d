"""What a detector's head is, and what it makes of a network's outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..cells import Activation, Cells, Indices, Output, Real
from ..letterbox import LETTERBOX, Fitting

Size = tuple[int, int]
"""(width, height)."""
UNTOLD = 0
"""The number of classes of outputs that don't tell it."""
_FRACTIONS = 2.0
"""No box of pixels has all its numbers below that; one in parts of the picture always has."""


@dataclass(frozen=True)
class Candidates:
    """Boxes that reach the threshold, several for one thing.

    `boxes` are float32 (n, 4), x1, y1, x2, y2 in pixels of the network's input; `scores` float32
    (n,), `classes` (n,). `keypoints` float32 (n, points, 3) are x, y and confidence;
    `coefficients` float32 (n, m) make masks of the m `prototypes` (m, height, width).
    """

    boxes: Real
    scores: Real
    classes: Indices
    keypoints: Real | None = None
    coefficients: Real | None = None
    prototypes: Real | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Those of all scales, without prototypes."""
        first = parts[0]
        return cls(
            np.concatenate([part.boxes for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.classes for part in parts]),
            _joined([part.keypoints for part in parts]) if first.keypoints is not None else None,
            _joined([part.coefficients for part in parts])
            if first.coefficients is not None
            else None,
        )


@dataclass(frozen=True)
class Head(ABC):
    """How a family of detectors says where things are, in one of the forms it is exported in.

    `fitting` is how the family's pictures lie in its input, `is_bgr` whether it was trained on BGR,
    `pixel_range` what the largest pixel value is in its source, and `suppresses` whether of
    several boxes for one thing the best has to be chosen.
    """

    fitting: Fitting = LETTERBOX
    is_bgr: bool = False
    pixel_range: float = 255.0
    suppresses: bool = True

    @property
    @abstractmethod
    def wants(self) -> str:
        """The outputs that it takes, for a person."""

    @property
    def usual_classes(self) -> int:
        """How many classes such networks mostly have: COCO's."""
        return 80

    @abstractmethod
    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        """Whether outputs of these shapes may be of this form, of a network of that input size."""

    @abstractmethod
    def classes(self, outputs: Sequence[Output]) -> int:
        """How many classes outputs that fit tell apart; `UNTOLD` where that can't be seen."""

    @abstractmethod
    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        """Where the scores are with which the threshold is compared: cells and channels."""

    @abstractmethod
    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        """The boxes that reach a threshold."""


def select(
    cells: Cells,
    classes: slice,
    threshold: float,
    activation: Activation = Activation.NONE,
    objectness: int | None = None,
) -> tuple[Indices, Indices, Real]:
    """(cells, their best classes, their scores): those that reach a threshold.

    A score is the best class's, times that of the channel `objectness` where there is one.
    """
    if objectness is None:
        found = cells.reaching(classes, threshold, activation)
        best, scores = cells.best(classes, found, activation)
    else:
        own = slice(objectness, objectness + 1)
        # A quantised 1 may be a little more, and lift a product over the threshold.
        least = threshold / max(1.0, cells.most(activation)) if cells.step else threshold
        found = cells.reaching(own, least, activation)
        best, scores = cells.best(classes, found, activation)
        scores = scores * activation.apply(cells.real(own, found)[:, 0])
    kept = scores >= np.float32(threshold)
    if kept.all():
        return found, best, scores
    return found[kept], best[kept], scores[kept]


def corners(centred: Real) -> Real:
    """Boxes as x1, y1, x2, y2 of those given by centre, width and height."""
    boxes = np.empty_like(centred)
    half = centred[:, 2:] / 2
    np.subtract(centred[:, :2], half, out=boxes[:, :2])
    np.add(centred[:, :2], half, out=boxes[:, 2:])
    return boxes


def in_pixels(boxes: Real, size: Size) -> Real:
    """Boxes or points in pixels of the input, where they may be in parts of it."""
    if len(boxes) and boxes.max() <= _FRACTIONS:
        return boxes * np.array(size * (boxes.shape[1] // 2), np.float32)
    return boxes


@lru_cache(maxsize=64)
def grid(width: int, height: int) -> Real:
    """The x and y of each cell (cells, 2), row by row."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    cells = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    cells.setflags(write=False)
    return cells


@lru_cache(maxsize=64)
def pyramid(size: Size, strides: tuple[int, ...] = (8, 16, 32)) -> tuple[Real, Real]:
    """(x and y of each cell, its stride) of the grids of an input one after another."""
    grids = [grid(size[0] // stride, size[1] // stride) for stride in strides]
    each = [np.full((len(cells), 1), step) for cells, step in zip(grids, strides, strict=True)]
    return np.concatenate(grids), np.concatenate(each).astype(np.float32)


def stride_of(output: Output, size: Size) -> NDArray[np.float32]:
    """Pixels of the input for a cell of an output's grid: (horizontal, vertical)."""
    return np.array([size[0] / output.shape[3], size[1] / output.shape[2]], np.float32)


def is_picture_grid(output: Output, size: Size) -> bool:
    """Whether an output is a grid (1, channels, height, width) that divides the input."""
    shape = output.shape
    if len(shape) != 4 or shape[0] != 1:
        return False
    return (
        size[0] % shape[3] == 0
        and size[1] % shape[2] == 0
        and size[0] // shape[3] == size[1] // shape[2]
        and size[0] // shape[3] in (4, 8, 16, 32, 64)
    )


def found_activation(scores: Sequence[tuple[Cells, int]]) -> Activation:
    """Whether scores were put through the sigmoid in the network, by the values they have.

    `scores` are a channel of scores of each scale. Probabilities never lie outside 0 to 1; without
    the sigmoid those of cells with nothing in them, nearly all, are far below 0. What a quantised
    output can hold doesn't tell it, since boxes may share it.
    """
    for cells, channel in scores:
        low, high = cells.range(channel)
        if low < -0.1 - cells.step or high > 1.1 + cells.step:
            return Activation.SIGMOID
    return Activation.NONE


def _joined(parts: Sequence[Real | None]) -> Real:
    return np.concatenate([part for part in parts if part is not None])
