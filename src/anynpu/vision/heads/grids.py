"""YOLOX's split head: a grid for each scale, one box in each cell, no anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cells import Activation, Cells, Output
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

_BOX = 4
_SCALES = 3


@dataclass(frozen=True)
class Grids(Head):
    """Three grids (1, 5 + classes, height, width).

    A centre is relative to its cell, a size the logarithm of one, both in strides; scores are
    before or after the sigmoid.
    """

    @property
    def wants(self) -> str:
        return "3 x (1, 5 + classes, height, width)"

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        if len(outputs) != _SCALES or not all(is_picture_grid(out, size) for out in outputs):
            return False
        widths = {output.shape[1] for output in outputs}
        sizes = {output.shape[2] for output in outputs}
        return len(widths) == 1 and len(sizes) == _SCALES and widths.pop() > _BOX + 1

    def classes(self, outputs: Sequence[Output]) -> int:
        return outputs[0].shape[1] - _BOX - 1

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        grids = [output.planes() for output in outputs]
        activation = found_activation([(cells, _BOX) for cells in grids])
        return [(cells, slice(_BOX, _BOX + 1), activation) for cells in grids]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        parts = []
        for output, (cells, _, activation) in zip(outputs, self.scores(outputs), strict=True):
            classes = slice(_BOX + 1, cells.channels)
            found, best, scores = select(cells, classes, threshold, activation, _BOX)
            raw = cells.real(slice(0, _BOX), found)
            stride = stride_of(output, size)
            centre = (raw[:, :2] + grid(output.shape[3], output.shape[2])[found]) * stride
            with np.errstate(over="ignore"):
                extent = np.exp(raw[:, 2:]) * stride
            boxes = corners(np.concatenate([centre, extent], axis=1)).astype(np.float32)
            parts.append(Candidates(boxes, scores, best))
        return Candidates.joined(parts)
