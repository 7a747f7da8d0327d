"""Heads in one output: boxes are decoded in the network, as Ultralytics and others export them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cells import Activation, Cells, Output
from .head import UNTOLD, Candidates, Head, Size, corners, in_pixels, pyramid, select

_STRIDES = (8, 16, 32)
_MASKS = 32
_POINTS = 17
_BOX = 4


def cells_of(size: Size) -> int:
    """How many cells the three grids of an input have."""
    return sum((size[0] // stride) * (size[1] // stride) for stride in _STRIDES)


@dataclass(frozen=True)
class Columns(Head):
    """(1, 4 + classes, cells): YOLOv8, YOLO11 and their like.

    A box is its centre, width and height, in pixels or, as some export it for int8, in parts of the
    input. With `masks` there are 32 more channels and an output of prototypes, with `points` 3 more
    for each keypoint.
    """

    masks: int = 0
    points: int = 0

    @property
    def wants(self) -> str:
        more = " + 32" if self.masks else f" + {3 * self.points}" if self.points else ""
        return f"(1, 4 + classes{more}, cells)" + (
            " and (1, 32, height/4, width/4)" if self.masks else ""
        )

    @property
    def usual_classes(self) -> int:
        return 1 if self.points else super().usual_classes

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        if len(outputs) != (2 if self.masks else 1) or not _has_prototypes(outputs, self.masks):
            return False
        shape = outputs[0].shape
        is_flat = len(shape) == 3 or (len(shape) == 4 and shape[3] == 1)
        return is_flat and shape[2] == cells_of(size) and self.classes(outputs) >= 1

    def classes(self, outputs: Sequence[Output]) -> int:
        return outputs[0].shape[1] - _BOX - self.masks - 3 * self.points

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        channels = slice(_BOX, _BOX + self.classes(outputs))
        return [(outputs[0].planes(), channels, Activation.NONE)]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        ((cells, channels, activation),) = self.scores(outputs)
        found, best, scores = select(cells, channels, threshold, activation)
        boxes = corners(in_pixels(cells.real(slice(0, _BOX), found), size))
        if not self.points and not self.masks:
            return Candidates(boxes, scores, best)
        more = cells.real(slice(channels.stop, cells.channels), found)
        return Candidates(
            boxes,
            scores,
            best,
            more.reshape(-1, self.points, 3) if self.points else None,
            more if self.masks else None,
            outputs[1].real()[0] if self.masks else None,
        )


@dataclass(frozen=True)
class Rows(Head):
    """(1, boxes, 5 + classes): YOLOv5, v6 and v7, decoded; `per_cell` boxes for each cell.

    A box is its centre, width and height, its objectness and the scores of its classes, all
    through the sigmoid. With `masks` there are 32 more values and an output of prototypes.
    """

    per_cell: int = 1
    masks: int = 0

    @property
    def wants(self) -> str:
        boxes = "cells" if self.per_cell == 1 else f"{self.per_cell} x cells"
        if self.masks:
            return f"(1, {boxes}, 5 + classes + 32) and (1, 32, height/4, width/4)"
        return f"(1, {boxes}, 5 + classes)"

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        if len(outputs) != (2 if self.masks else 1) or not _has_prototypes(outputs, self.masks):
            return False
        shape = outputs[0].shape
        count = self.per_cell * cells_of(size)
        return len(shape) == 3 and shape[1] == count and self.classes(outputs) >= 1

    def classes(self, outputs: Sequence[Output]) -> int:
        return outputs[0].shape[2] - _BOX - 1 - self.masks

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        return [(outputs[0].rows(), slice(_BOX, _BOX + 1), Activation.NONE)]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        cells = outputs[0].rows()
        classes = slice(_BOX + 1, _BOX + 1 + self.classes(outputs))
        found, best, scores = select(cells, classes, threshold, objectness=_BOX)
        boxes = corners(in_pixels(cells.real(slice(0, _BOX), found), size))
        if not self.masks:
            return Candidates(boxes, scores, best)
        more = cells.real(slice(classes.stop, cells.channels), found)
        return Candidates(boxes, scores, best, None, more, outputs[1].real()[0])


@dataclass(frozen=True)
class GridRows(Head):
    """(1, cells, 5 + classes): YOLOX before its boxes are decoded.

    A centre is relative to its cell, a size the logarithm of one, both in strides.
    """

    @property
    def wants(self) -> str:
        return "(1, cells, 5 + classes)"

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        if len(outputs) != 1:
            return False
        shape = outputs[0].shape
        return len(shape) == 3 and shape[1] == cells_of(size) and shape[2] > _BOX + 1

    def classes(self, outputs: Sequence[Output]) -> int:
        return outputs[0].shape[2] - _BOX - 1

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        return [(outputs[0].rows(), slice(_BOX, _BOX + 1), Activation.NONE)]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        cells = outputs[0].rows()
        classes = slice(_BOX + 1, cells.channels)
        found, best, scores = select(cells, classes, threshold, objectness=_BOX)
        places, strides = pyramid(size)
        raw = cells.real(slice(0, _BOX), found)
        centre = (raw[:, :2] + places[found]) * strides[found]
        with np.errstate(over="ignore"):
            extent = np.exp(raw[:, 2:]) * strides[found]
        return Candidates(corners(np.concatenate([centre, extent], axis=1)), scores, best)


@dataclass(frozen=True)
class EndToEnd(Head):
    """(1, boxes, 6): YOLOv10; each box is x1, y1, x2, y2, its score and its class."""

    @property
    def wants(self) -> str:
        return "(1, boxes, 6)"

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        shape = outputs[0].shape
        return len(outputs) == 1 and len(shape) == 3 and shape[2] == 6 and shape[1] < cells_of(size)

    def classes(self, outputs: Sequence[Output]) -> int:
        return UNTOLD

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        return [(outputs[0].rows(), slice(_BOX, _BOX + 1), Activation.NONE)]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        ((cells, channels, activation),) = self.scores(outputs)
        found, _, scores = select(cells, channels, threshold, activation)
        rows = cells.real(slice(0, 6), found)
        boxes = in_pixels(rows[:, :_BOX], size)
        return Candidates(boxes, scores, np.rint(rows[:, 5]).astype(np.intp))


def _has_prototypes(outputs: Sequence[Output], masks: int) -> bool:
    if not masks:
        return True
    shape = outputs[-1].shape
    return len(shape) == 4 and shape[1] == masks
