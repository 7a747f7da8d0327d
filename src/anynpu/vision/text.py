"""What PP-OCR's networks return: where lines of text are, and what they say.

The detector gives a map of probabilities that a pixel belongs to the core of a line; the
recogniser gives, for each column of a line, probabilities of characters (CTC, blank first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage.measure import label, regionprops

PIXEL_THRESHOLD = 0.3
"""A pixel of the map with at least this probability is text (PP-OCR's default)."""
LINE_THRESHOLD = 0.6
"""A region whose pixels reach this on average is a line (PP-OCR's default)."""
GROWTH = 1.6
"""How much larger than its core a line is: area times this over perimeter, on each side."""
_SMALLEST_REGION = 10
BLANK = 0


@dataclass(frozen=True)
class Line:
    """A rectangle round a line of text, at any angle.

    `corners` are (x, y) of the upper left, lower left, lower right and upper right, float (4, 2);
    `width` and `height` are along the line and across it.
    """

    corners: NDArray[np.float64]
    width: float
    height: float


def find_lines(probabilities: NDArray[np.float32], scale: float = 1.0) -> list[Line]:
    """The lines in a detector's map (H, W), from top to bottom, divided by `scale`."""
    regions = regionprops(label(probabilities >= PIXEL_THRESHOLD), intensity_image=probabilities)
    lines = [
        _enclose(region.coords[:, ::-1].astype(np.float64), scale)
        for region in regions
        if region.area >= _SMALLEST_REGION and region.intensity_mean >= LINE_THRESHOLD
    ]
    return sorted(lines, key=lambda line: float(line.corners[0, 1]))


def cut_line(picture: Image.Image, line: Line, width: int, height: int) -> NDArray[np.uint8]:
    """A line turned upright and scaled to `height`, as uint8 RGB (height, width, 3).

    What is right of its end is grey; a line too long for `width` is squeezed.
    """
    length = max(1, min(width, round(line.width * height / max(line.height, 1.0))))
    upright = picture.convert("RGB").transform(
        (length, height),
        Image.Transform.QUAD,
        [float(value) for value in line.corners.ravel()],
        Image.Resampling.BICUBIC,
    )
    pixels = np.full((height, width, 3), 127, np.uint8)
    pixels[:, :length] = np.asarray(upright)
    return pixels


def read_line(probabilities: NDArray[np.float32], characters: Sequence[str]) -> tuple[str, float]:
    """(text, mean probability of its characters) of a recogniser's output (columns, classes).

    `characters` are the classes after the blank. The best class of each column is taken; repeats
    and blanks are dropped.
    """
    best = probabilities.argmax(axis=1)
    changed = np.concatenate(([True], best[1:] != best[:-1]))
    kept = np.flatnonzero((best != BLANK) & changed)
    text = "".join(characters[best[column] - 1] for column in kept)
    confidence = float(probabilities[kept, best[kept]].mean()) if kept.size else 0.0
    return text, confidence


def _enclose(points: NDArray[np.float64], scale: float) -> Line:
    """The grown rectangle round a region's pixels, along the direction in which they extend."""
    centre = points.mean(axis=0)
    _, axes = np.linalg.eigh(np.cov((points - centre).T))
    along = axes[:, 1] * (1.0 if axes[0, 1] >= 0 else -1.0)
    across = np.array([-along[1], along[0]])
    left, right = _extent((points - centre) @ along)
    top, bottom = _extent((points - centre) @ across)
    width, height = right - left, bottom - top
    margin = width * height * GROWTH / (2 * (width + height))
    corners = [
        centre + along * x + across * y
        for x, y in (
            (left - margin, top - margin),
            (left - margin, bottom + margin),
            (right + margin, bottom + margin),
            (right + margin, top - margin),
        )
    ]
    size = np.array([width, height]) + 2 * margin
    return Line(np.array(corners) / scale, *(float(value) / scale for value in size))


def _extent(values: NDArray[np.float64]) -> tuple[float, float]:
    """From the edge of the first pixel to the edge of the last."""
    return float(values.min()) - 0.5, float(values.max()) + 0.5
