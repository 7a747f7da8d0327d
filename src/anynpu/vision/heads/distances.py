"""Split heads without anchors: each cell says how far it is to the four sides of its box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...tensor import Layout
from ..cells import Activation, Cells, Indices, Output, Real
from .head import (
    Candidates,
    Head,
    Size,
    found_activation,
    grid,
    in_pixels,
    is_picture_grid,
    select,
    stride_of,
)

_SCALES = 3
_SIDES = 4


@dataclass(frozen=True)
class _Scale:
    """The outputs of one grid: `boxes`, and `scores` from channel `first` on."""

    boxes: Output
    scores: Output
    first: int
    masks: Output | None = None

    @property
    def classes(self) -> slice:
        return slice(self.first, self.scores.shape[1])


@dataclass(frozen=True)
class Distances(Head):
    """For each of three scales boxes (1, 4 x bins, h, w) and scores (1, classes, h, w).

    So the vendors' zoos export YOLOv6, v8, v10 and 11. With one bin a channel is the distance in
    cells, with more it is a distribution over whole distances. A third output of each scale, the
    sum of its scores, isn't needed here. Boxes and scores may also be one output, of
    `fused_bins` x 4 + classes channels, as with `points`, whose keypoints are the last output,
    (1, points, 3, cells). With `masks` each scale has an output of 32 coefficients more, and the
    last one has the prototypes.
    """

    masks: int = 0
    points: int = 0
    fused_bins: int = 16

    @property
    def wants(self) -> str:
        if self.points:
            return f"3 x (1, 64 + classes, h, w) and (1, {self.points}, 3, cells)"
        if self.masks:
            return (
                "3 x [(1, 4 x bins, h, w), (1, classes, h, w), (1, 1, h, w), (1, 32, h, w)] and "
                "(1, 32, height/4, width/4)"
            )
        return "3 x [(1, 4 x bins, h, w), (1, classes, h, w), (1, 1, h, w) or nothing]"

    @property
    def usual_classes(self) -> int:
        return 1 if self.points else super().usual_classes

    def fits(self, outputs: Sequence[Output], size: Size) -> bool:
        rest = 1 if self.masks or self.points else 0
        grids = outputs[: len(outputs) - rest]
        if len(outputs) - rest not in self._counts():
            return False
        if not all(is_picture_grid(output, size) for output in grids):
            return False
        if self.masks and (len(outputs[-1].shape) != 4 or outputs[-1].shape[1] != self.masks):
            return False
        if self.points and outputs[-1].shape[1:3] != (self.points, 3):
            return False
        try:
            scales = self._scales(outputs)
        except ValueError:
            return False
        return _are_alike(scales, self.masks)

    def classes(self, outputs: Sequence[Output]) -> int:
        first = self._scales(outputs)[0]
        return first.scores.shape[1] - first.first

    def scores(self, outputs: Sequence[Output]) -> list[tuple[Cells, slice, Activation]]:
        scales = self._scales(outputs)
        grids = [scale.scores.planes() for scale in scales]
        first = scales[0].first
        activation = found_activation([(cells, first) for cells in grids])
        return [
            (cells, scale.classes, activation) for cells, scale in zip(grids, scales, strict=True)
        ]

    def decode(self, outputs: Sequence[Output], size: Size, threshold: float) -> Candidates:
        parts, passed = [], 0
        points = outputs[-1] if self.points else None
        pairs = zip(self._scales(outputs), self.scores(outputs), strict=True)
        for scale, (cells, classes, activation) in pairs:
            found, best, scores = select(cells, classes, threshold, activation)
            sides = scale.boxes.planes().real(slice(0, scale.first or scale.boxes.shape[1]), found)
            distances = _expected(sides)
            centre = grid(scale.boxes.shape[3], scale.boxes.shape[2])[found] + np.float32(0.5)
            stride = np.tile(stride_of(scale.boxes, size), 2)
            ends = np.concatenate([centre - distances[:, :2], centre + distances[:, 2:]], axis=1)
            masks = scale.masks
            part = Candidates(
                (ends * stride).astype(np.float32),
                scores,
                best,
                None,
                masks.planes().real(slice(0, self.masks), found) if masks is not None else None,
            )
            if points is not None:
                part = replace(part, keypoints=_points(points, found + passed, size))
            parts.append(part)
            passed += cells.count
        joined = Candidates.joined(parts)
        return replace(joined, prototypes=outputs[-1].real()[0]) if self.masks else joined

    def _counts(self) -> tuple[int, ...]:
        if self.points:
            return (_SCALES,)
        return (4 * _SCALES,) if self.masks else (_SCALES, 2 * _SCALES, 3 * _SCALES)

    def _scales(self, outputs: Sequence[Output]) -> list[_Scale]:
        """The scales, the finest first; ValueError where there aren't as many of each size."""
        grids = outputs[:-1] if self.masks or self.points else outputs
        by_size: dict[tuple[int, ...], list[Output]] = {}
        for output in grids:
            by_size.setdefault(output.shape[2:], []).append(output)
        if len({len(group) for group in by_size.values()}) != 1 or len(by_size) != _SCALES:
            raise ValueError("the scales don't have as many outputs each")
        ordered = sorted(by_size.items(), key=lambda item: -item[0][0])
        return [self._scale(group) for _, group in ordered]

    def _scale(self, group: Sequence[Output]) -> _Scale:
        if len(group) == 1:
            return _Scale(group[0], group[0], _SIDES * self.fused_bins)
        return _Scale(group[0], group[1], 0, group[3] if self.masks else None)


def _are_alike(scales: Sequence[_Scale], masks: int) -> bool:
    """Whether all scales have as many bins and classes, and boxes can be distances."""
    first = scales[0]
    is_box = first.first > 0 or first.boxes.shape[1] % _SIDES == 0
    is_mask = not masks or all(
        scale.masks is not None and scale.masks.shape[1] == masks for scale in scales
    )
    widths = {(scale.boxes.shape[1], scale.scores.shape[1]) for scale in scales}
    return is_box and is_mask and len(widths) == 1 and first.classes.stop > first.classes.start


def _expected(sides: Real) -> Real:
    """Distances (n, 4) in cells: the values themselves, or the mean of their distributions."""
    if sides.shape[1] == _SIDES:
        return sides
    each = sides.reshape(len(sides), _SIDES, sides.shape[1] // _SIDES)
    weights = np.exp(each - each.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    distances: Real = weights @ np.arange(each.shape[2], dtype=np.float32)
    return distances


def _points(output: Output, cells: Indices, size: Size) -> Real:
    """Keypoints (n, points, 3) of some cells; the output is (1, points, 3, cells)."""
    count = output.shape[1]
    flat = replace(output, shape=(1, count * 3, output.shape[3]))
    if output.values.ndim != len(output.shape):
        from ...layouts import nc1hwc2_to_nchw

        flat = replace(flat, values=nc1hwc2_to_nchw(output.values, count), layout=Layout.NCHW)
    found = flat.planes().real(slice(0, 3 * count), cells).reshape(-1, count, 3)
    found[..., :2] = in_pixels(found[..., :2].reshape(-1, 2), size).reshape(-1, count, 2)
    return found
