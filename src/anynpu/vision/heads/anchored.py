"""Split heads with anchors: a grid for each scale, three boxes in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..cells import Activation, Cells, Output, Real
from .head import (
    Candidates,
    Head,
    Size,
    corners,
    found_activation,
    grid,
    is_picture_grid,
    select,
    stride_of,
)

Anchors = tuple[tuple[tuple[float, float], ...], ...]
"""For each scale, from the finest, its boxes' (width, height) in pixels of the input."""

YOLOV5: Anchors = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
YOLOV7: Anchors = (
    ((12, 16), (19, 36), (40, 28)),
    ((36, 75), (76, 55), (72, 146)),
    ((142, 110), (192, 243), (459, 401)),
)
YOLOV3_TINY: Anchors = (
    ((10, 14), (23, 27), (37, 58)),
    ((81, 82), (135, 169), (344, 319)),
)

_BOX = 4
_LEAST = 5 + 1


@dataclass(frozen=True)
class Anchored(Head):
    """A grid (1, boxes x (5 + classes), height, width) for each of the anchors' scales.

    With `is_darknet` values are as YOLOv3 has them, before the sigmoid; else as YOLOv5 and v7,
    before or after it. With `masks` each grid is followed by one of boxes x 32 coefficients,
    and the last output has the prototypes.
    """

    anchors: Anchors = field(default=YOLOV5)
    is_darknet: bool = False
    masks: int = 0

    @property
    def wants(self) -> str:
        count = len(self.anchors[0])
        text = f"{len(self.anchors)} x (1, {count} x (5 + classes), height, width)"
        if self.masks:
            text += f", each with (1, {count} x 32, height, width), and (1, 32, height/4, width/4)"
        return text

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        if len(outputs) != len(self.anchors) * (2 if self.masks else 1) + bool(self.masks):
            return False
        grids, more = self._grids(outputs), self._coefficients(outputs)
        if not all(is_picture_grid(output, size) for output in [*grids, *more]):
            return False
        if self.masks and (len(outputs[-1].shape) != 4 or outputs[-1].shape[1] != self.masks):
            return False
        strides = {int(stride_of(output, size)[0]) for output in grids}
        per_box = {output.shape[1] / len(self.anchors[0]) for output in grids}
        each = per_box.pop()
        return len(strides) == len(grids) and not per_box and each == int(each) and each >= _LEAST

    def classes(self, outputs: Sequence[Output]) -> int:
        return outputs[0].shape[1] // len(self.anchors[0]) - 5

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        each = self.classes(outputs) + 5
        channels = [number * each + _BOX for number in range(len(self.anchors[0]))]
        grids = [output.planes() for output in self._grids(outputs)]
        activation = self._activation(grids)
        return [
            (cells, slice(channel, channel + 1), activation)
            for cells in grids
            for channel in channels
        ]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        parts: list[Candidates] = []
        grids = self._grids(outputs)
        found = self._coefficients(outputs)
        more: Sequence[Output | None] = found or [None] * len(grids)
        pairs = sorted(zip(grids, more, strict=True), key=lambda pair: -pair[0].shape[2])
        activation = self._activation([output.planes() for output in grids])
        for anchors, (output, masks) in zip(self.anchors, pairs, strict=True):
            parts += self._decode_grid(output, masks, anchors, size, threshold, activation)
        joined = Candidates.joined(parts)
        if not self.masks:
            return joined
        return replace(joined, prototypes=outputs[-1].real()[0])

    def _decode_grid(
        self,
        output: Output,
        masks: Output | None,
        anchors: Sequence[tuple[float, float]],
        size: Size,
        threshold: float,
        activation: Activation,
    ) -> Iterator[Candidates]:
        cells = output.planes()
        extra = masks.planes() if masks is not None else None
        each = cells.channels // len(anchors)
        stride = stride_of(output, size)
        places = grid(output.shape[3], output.shape[2])
        for number, anchor in enumerate(anchors):
            base = number * each
            classes = slice(base + _BOX + 1, base + each)
            found, best, scores = select(cells, classes, threshold, activation, base + _BOX)
            raw = cells.real(slice(base, base + _BOX), found)
            centre, extent = self._centre_and_extent(raw, activation, np.array(anchor, np.float32))
            centred = np.concatenate([(centre + places[found]) * stride, extent], axis=1)
            own = slice(number * self.masks, (number + 1) * self.masks)
            coefficients = extra.real(own, found) if extra is not None else None
            yield Candidates(corners(centred), scores, best, None, coefficients)

    def _centre_and_extent(
        self, raw: Real, activation: Activation, anchor: Real
    ) -> tuple[Real, Real]:
        """Centres relative to their cells, in cells, and widths and heights in pixels."""
        if self.is_darknet:
            with np.errstate(over="ignore"):
                return activation.apply(raw[:, :2]), np.exp(raw[:, 2:]) * anchor
        values = activation.apply(raw)
        return values[:, :2] * 2 - np.float32(0.5), (values[:, 2:] * 2) ** 2 * anchor

    def _activation(self, grids: Sequence[Cells]) -> Activation:
        if self.is_darknet:
            return Activation.SIGMOID
        return found_activation([(cells, _BOX) for cells in grids])

    def _grids(self, outputs: Sequence[Output]) -> list[Output]:
        return list(outputs[:-1:2] if self.masks else outputs)

    def _coefficients(self, outputs: Sequence[Output]) -> list[Output]:
        return list(outputs[1:-1:2]) if self.masks else []
