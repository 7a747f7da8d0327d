"""Fit a picture of any size into a network's fixed input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image


@dataclass(frozen=True)
class Letterbox:
    """A picture scaled into a canvas: `pixels` is uint8 RGB (H, W, 3).

    A point of the canvas is the picture's point times `scale`; the picture lies top left.
    """

    pixels: NDArray[np.uint8]
    scale: float


def letterbox(picture: Image.Image, width: int, height: int, fill: int = 0) -> Letterbox:
    """Scale a picture as large as fits into `width` x `height`, top left, the rest `fill`."""
    scale = min(width / picture.width, height / picture.height)
    size = (round(picture.width * scale), round(picture.height * scale))
    scaled = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC)
    pixels = np.full((height, width, 3), fill, np.uint8)
    pixels[: scaled.height, : scaled.width] = np.asarray(scaled)
    return Letterbox(pixels, scale)
