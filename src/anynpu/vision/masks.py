"""Masks of a segmenting network: each is a weighted sum of prototypes, inside of its box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .heads import Size
from .letterbox import Placement


@dataclass(frozen=True)
class MaskCrop:
    """The part of a mask that lies in its box: bool (height, width) with its upper left corner."""

    left: int
    top: int
    pixels: NDArray[np.bool_]

    @property
    def area(self) -> int:
        """How many pixels of the picture belong to it."""
        return int(self.pixels.sum())

    def paste(self, mask: NDArray[np.bool_]) -> None:
        """Put it into a mask of the whole picture."""
        height, width = self.pixels.shape
        mask[self.top : self.top + height, self.left : self.left + width] = self.pixels


def crops(
    coefficients: NDArray[np.float32],
    prototypes: NDArray[np.float32],
    boxes: NDArray[np.float32],
    place: Placement,
    canvas: Size,
) -> Iterator[MaskCrop]:
    """The masks of boxes (n, 4) in the picture's pixels.

    `coefficients` are (n, m), `prototypes` (m, height, width) over the whole canvas. A pixel
    belongs to a mask where its logit is above 0, that is, its probability above a half.
    """
    count, height, width = prototypes.shape
    logits = (coefficients @ prototypes.reshape(count, -1)).reshape(-1, height, width)
    left, top, right, bottom = _window(place, canvas, (width, height))
    for logit, box in zip(logits, boxes, strict=True):
        yield _crop(logit[top:bottom, left:right], box, place.picture)


def _window(place: Placement, canvas: Size, map_size: Size) -> tuple[int, int, int, int]:
    """Where the picture lies in the prototypes, in whole pixels of theirs."""
    scale = np.array([map_size[0] / canvas[0], map_size[1] / canvas[1]])
    first = np.array(place.corner) * scale
    last = (np.array(place.corner) + place.size) * scale
    left, top = np.rint(first).astype(int)
    right, bottom = np.maximum(np.rint(last).astype(int), (left + 1, top + 1))
    return int(left), int(top), int(right), int(bottom)


def _crop(logit: NDArray[np.float32], box: NDArray[np.float32], picture: Size) -> MaskCrop:
    """The mask inside of a box, scaled from the prototypes' part to the picture's pixels.

    Only the box's pixels are computed, each from its own place in the prototypes.
    """
    left, top = np.floor(box[:2]).astype(int)
    right, bottom = np.minimum(np.ceil(box[2:]).astype(int), picture)
    if right <= left or bottom <= top:
        return MaskCrop(int(left), int(top), np.zeros((0, 0), np.bool_))
    across = (np.arange(left, right) + 0.5) * logit.shape[1] / picture[0] - 0.5
    down = (np.arange(top, bottom) + 0.5) * logit.shape[0] / picture[1] - 0.5
    x, y = np.meshgrid(across.astype(np.float32), down.astype(np.float32))
    scaled: Any = cv2.remap(logit, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return MaskCrop(int(left), int(top), scaled > 0)
