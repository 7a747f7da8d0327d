"""What PP-OCR's networks return: where lines of text are, and what they say.

The detector gives a map of probabilities that a pixel belongs to the core of a line; the
recogniser gives, for each column of a line, probabilities of characters (CTC, blank first).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .pictures import Picture, Pixels, as_rgb

PIXEL_THRESHOLD = 0.3
"""A pixel of the map with at least this probability is text (PP-OCR's default)."""
LINE_THRESHOLD = 0.6
"""A region whose pixels reach this on average is a line (PP-OCR's default)."""
GROWTH = 1.7
"""How much larger than its core a line is: area times this over perimeter, on each side.

A little more than PP-OCR's own 1.6, with which the recogniser loses spaces.
"""
BLANK = 0
_SMALLEST_SIDE = 3.0
_UPRIGHT = 1.5
"""A box that many times as high as wide is a line that runs downwards."""
_GREY = 127


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
    """The lines in a detector's map (H, W), in the order of reading, divided by `scale`."""
    is_text = (probabilities >= PIXEL_THRESHOLD).astype(np.uint8)
    contours, _ = cv2.findContours(is_text, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    lines = [
        line for contour in contours if (line := _line(contour, probabilities, scale)) is not None
    ]
    return sorted(lines, key=functools.cmp_to_key(_reading_order))


def cut_line(picture: Picture, line: Line, width: int, height: int) -> Pixels:
    """A line turned upright and scaled to `height`, as uint8 RGB (height, width, 3).

    What is right of its end is grey; a line too long for `width` is squeezed.
    """
    length = max(1, min(width, round(line.width * height / max(line.height, 1.0))))
    target = np.array([(0, 0), (0, height), (length, height), (length, 0)])
    turn = cv2.getPerspectiveTransform(_centred(line.corners), _centred(target))
    upright: Any = cv2.warpPerspective(
        as_rgb(picture),
        turn,
        (length, height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    pixels = np.full((height, width, 3), _GREY, np.uint8)
    pixels[:, :length] = upright
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


def _centred(corners: NDArray[Any]) -> Any:
    """Corners as OpenCV counts, for which 0 is the middle of the first pixel."""
    return (corners - 0.5).astype(np.float32)


def _line(contour: Any, probabilities: NDArray[np.float32], scale: float) -> Line | None:
    """The grown rectangle round a region's outline; None for one that is small or unsure."""
    centre, (across, down), angle = cv2.minAreaRect(contour)
    # The outline runs through the middles of its pixels.
    across, down = across + 1, down + 1
    if min(across, down) < _SMALLEST_SIDE or _mean_inside(contour, probabilities) < LINE_THRESHOLD:
        return None
    margin = across * down * GROWTH / (2 * (across + down))
    grown = (centre, (across + 2 * margin, down + 2 * margin), angle)
    corners = _ordered(cv2.boxPoints(grown).astype(np.float64) + 0.5) / scale
    upper_left, lower_left, _, upper_right = corners
    width = float(np.linalg.norm(upper_right - upper_left))
    height = float(np.linalg.norm(lower_left - upper_left))
    if height >= _UPRIGHT * width:
        corners, width, height = np.roll(corners, -1, axis=0), height, width
    return Line(corners, width, height)


def _mean_inside(contour: Any, probabilities: NDArray[np.float32]) -> float:
    left, top, width, height = cv2.boundingRect(contour)
    mask = np.zeros((height, width), np.uint8)
    cv2.drawContours(mask, [contour], -1, 1, cv2.FILLED, offset=(-left, -top))
    part = probabilities[top : top + height, left : left + width]
    return float(cv2.mean(part, mask)[0])


def _ordered(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """The four corners as upper left, lower left, lower right, upper right."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left = by_x[:2][np.argsort(by_x[:2, 1], kind="stable")]
    right = by_x[2:][np.argsort(by_x[2:, 1], kind="stable")]
    return np.array([left[0], left[1], right[1], right[0]])


def _reading_order(one: Line, other: Line) -> int:
    """Below zero where one line comes before another: lines of one row go from left to right."""
    (x, y), (other_x, other_y) = one.corners.mean(axis=0), other.corners.mean(axis=0)
    if abs(y - other_y) < min(one.height, other.height) / 2:
        return int(np.sign(x - other_x))
    return int(np.sign(y - other_y))
