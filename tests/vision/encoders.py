"""Outputs of detectors' heads that say known things: the inverse of decoding, written for tests.

Each encoder puts boxes into the cells where a trained network would, the rest is background.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anynpu.tensor import Layout, Quantization
from anynpu.vision.cells import Output
from anynpu.vision.heads import YOLOV3_TINY, YOLOV5, YOLOV7, Anchors
from anynpu.vision.heads.ssd import mobilenet_priors

CLASSES = 7
SIZE = (320, 256)
"""(width, height) of the networks' input."""
STRIDES = (8, 16, 32)
_BINS = 16
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Thing:
    """A box by its centre and size in pixels of the input, a class and a score."""

    centre: tuple[float, float]
    extent: tuple[float, float]
    class_id: int
    score: float

    @property
    def box(self) -> tuple[float, float, float, float]:
        """x1, y1, x2, y2."""
        (x, y), (w, h) = self.centre, self.extent
        return x - w / 2, y - h / 2, x + w / 2, y + h / 2

    def cell(self, stride: int) -> tuple[int, int]:
        """(row, column) of the cell that its centre lies in."""
        return int(self.centre[1] // stride), int(self.centre[0] // stride)


Things = Sequence[Thing]
Encoder = Callable[[Things], list[Array]]


def logit(p: float) -> float:
    """The inverse of the sigmoid."""
    return float(np.log(p / (1 - p)))


def _grid(stride: int, channels: int, fill: float = 0.0) -> Array:
    return np.full((1, channels, SIZE[1] // stride, SIZE[0] // stride), fill, np.float32)


def _stride_for(thing: Thing) -> int:
    """The scale whose cells suit a box: a few from its centre to its sides."""
    return next((stride for stride in STRIDES if max(thing.extent) / stride < 6), STRIDES[-1])


def distances(bins: int, *, is_raw: bool = False, has_sums: bool = True) -> Encoder:
    """YOLOv6, v8, v10, 11 split: boxes, scores and, of some, the scores' sums for each scale."""

    def encode(things: Things) -> list[Array]:
        outputs: list[Array] = []
        for stride in STRIDES:
            boxes = _grid(stride, 4 * bins)
            scores = _grid(stride, CLASSES, -9.0 if is_raw else 0.0)
            for thing in things:
                if _stride_for(thing) != stride:
                    continue
                row, column = thing.cell(stride)
                x1, y1, x2, y2 = (value / stride for value in thing.box)
                sides = (column + 0.5 - x1, row + 0.5 - y1, x2 - column - 0.5, y2 - row - 0.5)
                boxes[0, :, row, column] = np.concatenate([_side(side, bins) for side in sides])
                value = logit(thing.score) if is_raw else thing.score
                scores[0, thing.class_id, row, column] = value
            outputs += [boxes, scores]
            if has_sums:
                outputs.append(np.clip(scores.sum(axis=1, keepdims=True), 0, 1))
        return outputs

    return encode


def _side(side: float, bins: int) -> Array:
    """A distance as its channels: itself, or the logarithms of a distribution with that mean."""
    if bins == 1:
        return np.array([side], np.float32)
    low = min(max(int(side), 0), bins - 2)
    weights = np.full(bins, 1e-12)
    weights[low], weights[low + 1] = max(low + 1 - side, 1e-12), max(side - low, 1e-12)
    logarithms: Array = np.log(weights).astype(np.float32)
    return logarithms


def columns(*, in_parts: bool = False, extra: int = 0) -> Encoder:
    """YOLOv8 and 11 in one output, (1, 4 + classes, cells)."""

    def encode(things: Things) -> list[Array]:
        output = np.zeros((1, 4 + CLASSES + extra, _cells()), np.float32)
        for thing in things:
            cell = _number(thing)
            unit = np.array(SIZE * 2) if in_parts else np.ones(4)
            output[0, :4, cell] = np.array([*thing.centre, *thing.extent]) / unit
            output[0, 4 + thing.class_id, cell] = thing.score
        return [output]

    return encode


def rows(per_cell: int) -> Encoder:
    """YOLOv5, v6 and v7 in one output, (1, boxes, 5 + classes)."""

    def encode(things: Things) -> list[Array]:
        output = np.zeros((1, per_cell * _cells(), 5 + CLASSES), np.float32)
        for thing in things:
            row = output[0, _number(thing) + (per_cell - 1) * _cells()]
            row[:4] = *thing.centre, *thing.extent
            row[4], row[5 + thing.class_id] = thing.score, 1.0
        return [output]

    return encode


def grid_rows(things: Things) -> list[Array]:
    """YOLOX in one output before its boxes are decoded."""
    grids = [grid.reshape(CLASSES + 5, -1) for grid in yolox(is_raw=False)(things)]
    return [np.concatenate(grids, axis=1).T[None]]


def yolox(*, is_raw: bool) -> Encoder:
    """YOLOX split, scores before or after the sigmoid."""

    def encode(things: Things) -> list[Array]:
        outputs = []
        for stride in STRIDES:
            grid = _grid(stride, 5 + CLASSES)
            if is_raw:
                grid[:, 4:] = -9.0
            for thing in things:
                if _stride_for(thing) != stride:
                    continue
                row, column = thing.cell(stride)
                x, y = (value / stride for value in thing.centre)
                grid[0, :2, row, column] = x - column, y - row
                grid[0, 2:4, row, column] = np.log(np.array(thing.extent) / stride)
                grid[0, 4, row, column] = logit(thing.score) if is_raw else thing.score
                grid[0, 5 + thing.class_id, row, column] = 20.0 if is_raw else 1.0
            outputs.append(grid)
        return outputs

    return encode


def anchored(
    anchors: Anchors, strides: Sequence[int], *, is_darknet: bool, is_raw: bool
) -> Encoder:
    """YOLOv3, v5 and v7 split; sizes are told by the anchor that is nearest to them."""

    def encode(things: Things) -> list[Array]:
        grids = [_grid(stride, 3 * (5 + CLASSES), -9.0 if is_raw else 0.0) for stride in strides]
        for thing in things:
            scale, number = _nearest(anchors, thing)
            stride, anchor = strides[scale], np.array(anchors[scale][number])
            row, column = thing.cell(stride)
            offset = np.array(thing.centre) / stride - (column, row)
            if is_darknet:
                values = [*map(logit, np.clip(offset, 1e-6, 1 - 1e-6))]
                values += [*np.log(np.array(thing.extent) / anchor)]
            else:
                values = [*((offset + 0.5) / 2), *(np.sqrt(np.array(thing.extent) / anchor) / 2)]
                values = [logit(value) for value in values] if is_raw else values
            base = number * (5 + CLASSES)
            cell = grids[scale][0, base : base + 5 + CLASSES, row, column]
            cell[:4] = values
            cell[4] = logit(thing.score) if is_raw else thing.score
            cell[5 + thing.class_id] = 20.0 if is_raw else 1.0
        return grids

    return encode


def _nearest(anchors: Anchors, thing: Thing) -> tuple[int, int]:
    """The anchor of the nearest size; the network's own values reach from 0 to 4 times it."""
    sizes = np.log(np.array(anchors, np.float64).reshape(-1, 2))
    best = int(np.abs(sizes - np.log(thing.extent)).max(axis=1).argmin())
    return divmod(best, 3)


def ssd(*, is_raw: bool) -> Encoder:
    """TensorFlow's SSD: offsets from the nearest prior."""

    def encode(things: Things) -> list[Array]:
        priors = mobilenet_priors(SIZE)
        boxes = np.zeros((1, len(priors), 4), np.float32)
        scores = np.full((1, len(priors), 1 + CLASSES), -9.0 if is_raw else 0.0, np.float32)
        scores[..., 0] = 9.0 if is_raw else 1.0
        for thing in things:
            unit = np.array(SIZE[::-1], np.float64)
            centre, extent = (np.array(each)[::-1] / unit for each in (thing.centre, thing.extent))
            far = np.abs(priors[:, :2] - centre).sum(axis=1)
            far += np.abs(np.log(priors[:, 2:] / extent)).sum(axis=1)
            prior = int(far.argmin())
            y, x, h, w = priors[prior].astype(np.float64)
            boxes[0, prior, :2] = (centre - (y, x)) / (h, w) * 10
            boxes[0, prior, 2:] = np.log(extent / (h, w)) * 5
            scores[0, prior, 1 + thing.class_id] = logit(thing.score) if is_raw else thing.score
        return [boxes, scores]

    return encode


def end_to_end(things: Things) -> list[Array]:
    """YOLOv10 in one output, (1, 300, 6)."""
    output = np.zeros((1, 300, 6), np.float32)
    for number, thing in enumerate(things):
        output[0, number] = *thing.box, thing.score, thing.class_id
    return [output]


ENCODERS: dict[str, tuple[str, Encoder]] = {
    "yolov3-tiny": (
        "yolov3-tiny",
        anchored(YOLOV3_TINY, (16, 32), is_darknet=True, is_raw=True),
    ),
    "yolov5 split": ("yolov5", anchored(YOLOV5, STRIDES, is_darknet=False, is_raw=False)),
    "yolov5 split, logits": ("yolov5", anchored(YOLOV5, STRIDES, is_darknet=False, is_raw=True)),
    "yolov5 single": ("yolov5", rows(3)),
    "yolov6 split": ("yolov6", distances(1)),
    "yolov6 single": ("yolov6", rows(1)),
    "yolov7 split": ("yolov7", anchored(YOLOV7, STRIDES, is_darknet=False, is_raw=False)),
    "yolov7 single": ("yolov7", rows(3)),
    "yolov8 split": ("yolov8", distances(_BINS)),
    "yolov8 split, logits, no sums": (
        "yolov8",
        distances(_BINS, is_raw=True, has_sums=False),
    ),
    "yolov8 single": ("yolov8", columns()),
    "yolov8 single, parts": ("yolov8", columns(in_parts=True)),
    "yolov10 split": ("yolov10", distances(_BINS)),
    "yolov10 single": ("yolov10", end_to_end),
    "yolo11 split": ("yolo11", distances(_BINS)),
    "yolo11 single": ("yolo11", columns()),
    "yolox split": ("yolox", yolox(is_raw=False)),
    "yolox split, logits": ("yolox", yolox(is_raw=True)),
    "yolox single": ("yolox", grid_rows),
    "ssd": ("ssd", ssd(is_raw=False)),
    "ssd, logits": ("ssd", ssd(is_raw=True)),
}
"""By form, the head's name and what encodes for it."""


def outputs(arrays: Sequence[NDArray[np.generic]]) -> list[Output]:
    """Float arrays as a session gives them."""
    return [
        Output(f"out{number}", array.shape, array, Layout.NCHW, None)
        for number, array in enumerate(arrays)
    ]


def quantised(array: Array, dtype: str = "int8") -> tuple[NDArray[np.generic], Quantization]:
    """An array in the scale and zero point that a compiler would choose."""
    limits = np.iinfo(dtype)
    low, high = min(0.0, float(array.min())), max(0.0, float(array.max()))
    scale = float(np.float32((high - low or 1.0) / (limits.max - limits.min)))
    zero_point = round(limits.min - low / scale)
    stored = np.clip(np.rint(array / scale) + zero_point, limits.min, limits.max).astype(dtype)
    return stored, Quantization(scale, zero_point)


def _cells() -> int:
    return sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in STRIDES)


def _number(thing: Thing) -> int:
    """The place of a thing's cell among those of all scales."""
    before = 0
    for stride in STRIDES:
        if stride == _stride_for(thing):
            row, column = thing.cell(stride)
            return before + row * (SIZE[0] // stride) + column
        before += (SIZE[0] // stride) * (SIZE[1] // stride)
    raise AssertionError("every thing has a scale")
