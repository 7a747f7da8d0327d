"""Fit a picture of any size into a network's fixed input, and take boxes back to the picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .pictures import Picture, Pixels, as_rgb

GREY = 114
"""What the YOLO networks of Ultralytics and Megvii are trained to see around a picture."""


@dataclass(frozen=True)
class Placement:
    """Where a picture of `picture` (width, height) lies in a canvas: the inverse is exact.

    It takes the `size` (width, height) at `corner` (x, y) of the canvas. Points are those between
    pixels: 0 is the left edge of the first pixel, the width the right edge of the last.
    """

    picture: tuple[int, int]
    size: tuple[int, int]
    corner: tuple[int, int]

    @property
    def scale(self) -> tuple[float, float]:
        """(horizontal, vertical): pixels of the canvas for one of the picture."""
        return self.size[0] / self.picture[0], self.size[1] / self.picture[1]

    def to_canvas(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """(x, y) or (x, y, x, y) in the last axis, from the picture to the canvas."""
        scale, corner = self._tiled(points)
        return points * scale + corner

    def to_picture(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """(x, y) or (x, y, x, y) in the last axis, from the canvas to the picture."""
        scale, corner = self._tiled(points)
        return (points - corner) / scale

    def boxes_to_picture(self, boxes: NDArray[Any]) -> NDArray[np.float32]:
        """Boxes (n, 4) as x1, y1, x2, y2 in the picture's pixels, cut off at its edges."""
        return np.clip(self.to_picture(boxes), 0, self.picture * 2).astype(np.float32)

    def _tiled(self, points: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        repeats = points.shape[-1] // 2
        return np.array(self.scale * repeats), np.array(self.corner * repeats, np.float64)


@dataclass(frozen=True)
class Fitting:
    """How a kind of network wants its pictures.

    `is_stretched`: the whole canvas, the sides' ratio aside; else as large as fits, and the rest
    is `fill`. `is_centred`: in its middle, else in its upper left corner. `interpolation` is one
    of OpenCV's.
    """

    is_stretched: bool = False
    is_centred: bool = True
    fill: int = GREY
    interpolation: int = cv2.INTER_LINEAR

    def stretched(self) -> Fitting:
        """The same over the whole canvas."""
        return replace(self, is_stretched=True)

    def place(self, picture: tuple[int, int], canvas: tuple[int, int]) -> Placement:
        """Where a picture of some (width, height) comes to lie in a canvas of (width, height)."""
        if self.is_stretched:
            return Placement(picture, canvas, (0, 0))
        scale = min(canvas[0] / picture[0], canvas[1] / picture[1])
        width, height = (
            min(room, max(1, round(side * scale)))
            for side, room in zip(picture, canvas, strict=True)
        )
        corner = (
            ((canvas[0] - width) // 2, (canvas[1] - height) // 2) if self.is_centred else (0, 0)
        )
        return Placement(picture, (width, height), corner)

    def fit(self, rgb: Pixels, canvas: tuple[int, int]) -> tuple[Pixels, Placement]:
        """uint8 RGB (H, W, 3) scaled into a canvas of (width, height): a new array, and where."""
        return Canvas(self, canvas).fit(rgb)


class Canvas:
    """Memory of (width, height) for one fitted picture after the other: each overwrites the last.

    What surrounds a picture is filled when the next one lies elsewhere.
    """

    def __init__(self, fitting: Fitting, size: tuple[int, int]) -> None:
        self._fitting, self._size = fitting, size
        self._pixels: Pixels = np.empty((size[1], size[0], 3), np.uint8)
        self._filled: tuple[slice, slice] | None = None

    def fit(self, rgb: Pixels) -> tuple[Pixels, Placement]:
        """uint8 RGB (H, W, 3) scaled into the canvas: its memory, and where in it."""
        place = self._fitting.place((rgb.shape[1], rgb.shape[0]), self._size)
        (left, top), (width, height) = place.corner, place.size
        area = slice(top, top + height), slice(left, left + width)
        if area != self._filled:
            if place.size != self._size:
                self._pixels[:] = self._fitting.fill
            self._filled = area
        inside: Any = self._pixels[area]
        if place.size == place.picture:
            np.copyto(inside, rgb)
        else:
            cv2.resize(rgb, place.size, dst=inside, interpolation=self._fitting.interpolation)
        return self._pixels, place


LETTERBOX = Fitting()
"""In the middle, surrounded by grey: the usual way of the YOLO networks."""


@dataclass(frozen=True)
class Letterbox:
    """A picture scaled into a canvas: `pixels` is uint8 RGB (H, W, 3).

    A point of the canvas is the picture's point times `scale`; the picture lies top left.
    """

    pixels: Pixels
    scale: float


def letterbox(picture: Picture, width: int, height: int, fill: int = 0) -> Letterbox:
    """Scale a picture as large as fits into `width` x `height`, top left, the rest `fill`."""
    fitting = Fitting(is_centred=False, fill=fill, interpolation=cv2.INTER_CUBIC)
    pixels, place = fitting.fit(as_rgb(picture), (width, height))
    return Letterbox(pixels, min(place.scale))
