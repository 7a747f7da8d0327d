"""`TextReader`: the lines of text in a picture, by PP-OCR's networks."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, TensorError
from ..rknn.normalization import Normalization
from . import normalization
from .letterbox import Fitting
from .network import PictureNetwork, Source, pixels_of
from .pictures import Picture, Pixels, as_rgb
from .text import Line, cut_line, find_lines, read_line

DETECTOR = Normalization((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""What PP-OCRv3's and v4's detectors do to pixels, in BGR."""
RECOGNISER = Normalization((127.5,), (127.5,))
"""What PP-OCR's recognisers do to pixels."""

_SQUEEZED = 1.25
"""From there on lines are misread: a page's were read at 1.20, and with mistakes at 1.28."""
_FITTING = Fitting(is_centred=False, fill=0, interpolation=cv2.INTER_CUBIC)


@dataclass(frozen=True)
class TextLine:
    """A line of text: what it says, how sure that is (0 to 1), and its corners in the picture.

    `corners` are (x, y) of the upper left, lower left, lower right and upper right, float (4, 2).
    """

    text: str
    confidence: float
    corners: NDArray[np.float64]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, such as for JSON."""
        return {
            "text": self.text,
            "confidence": round(self.confidence, 4),
            "corners": self.corners.round(1).tolist(),
        }


class TextReader:
    """PP-OCR's recogniser and, for pictures of several lines, its detector.

        reader = TextReader(recogniser, detector, characters="characters.txt")
        for line in reader("page.png"):
            print(line.text)

    Both are sessions or models, which the caller opens and closes. Without a `detector` a picture
    is one line. `characters` are the recogniser's classes after the blank, in order, or a file with
    one a line; the space that PP-OCR adds at the end may be left out. `least_confidence` drops
    lines below it.

    Raises `TensorError` for networks that aren't of that kind, `OptionError` for another number of
    characters than the recogniser's.
    """

    def __init__(
        self,
        recogniser: Source,
        detector: Source | None = None,
        *,
        characters: Sequence[str] | str | os.PathLike[str],
        least_confidence: float = 0.5,
        is_bgr: bool = True,
    ) -> None:
        self._recogniser = PictureNetwork(recogniser)
        self._detector = PictureNetwork(detector) if detector is not None else None
        self._least, self._is_bgr = least_confidence, is_bgr
        _check_recogniser(self._recogniser)
        if self._detector is not None:
            _check_detector(self._detector)
        self._characters = _characters(characters, self._recogniser.outputs[0].shape[-1])
        self._read_normalization = normalization.chosen(
            None, recogniser.normalizations[0], RECOGNISER
        )
        if detector is not None:
            self._find_normalization = normalization.chosen(
                None, detector.normalizations[0], DETECTOR
            )

    def __call__(self, picture: Picture) -> list[TextLine]:
        """The lines of a picture in the order of reading; pictures are as `Detector` takes them."""
        rgb = as_rgb(picture)
        lines = self.find(rgb) if self._detector is not None else [_whole(rgb)]
        readings = zip(lines, self.read(rgb, lines), strict=True)
        return [
            TextLine(text, confidence, line.corners)
            for line, (text, confidence) in readings
            if text and confidence >= self._least
        ]

    def find(self, picture: Picture) -> list[Line]:
        """Where lines are, in the order of reading, in the picture's pixels."""
        if self._detector is None:
            raise OptionError("this reader has no detector: make it with one to find lines")
        rgb = as_rgb(picture)
        pixels, place = _FITTING.fit(rgb, self._detector.size)
        (output,) = self._detector.run(self._prepared(pixels, self._find_normalization))
        probabilities = output.real().reshape(output.shape[-2:])
        scale = place.scale
        # What lies in the filling is no text of the picture's.
        width, height = place.size
        inside = np.ascontiguousarray(probabilities[:height, :width])
        return [_divided(line, scale) for line in find_lines(inside)]

    def read(self, picture: Picture, lines: Sequence[Line]) -> Iterator[tuple[str, float]]:
        """(text, confidence) of each line, in order, with all of a session's cores at work.

        Lines that are longer than the recogniser's input are squeezed into it, with a warning where
        they are so much longer that they are misread.
        """
        rgb = as_rgb(picture)
        width, height = self._recogniser.size
        _warn_of_long(lines, width, height)
        cut = (cut_line(rgb, line, width, height) for line in lines)
        feeds = (self._prepared(pixels, self._read_normalization) for pixels in cut)
        for (output,) in self._recogniser.stream(feeds):
            yield read_line(output.real().reshape(output.shape[-2:]), self._characters)

    def _prepared(self, pixels: Pixels, done: Normalization) -> NDArray[np.generic]:
        return normalization.apply(pixels_of(pixels, is_bgr=self._is_bgr), done)


def _warn_of_long(lines: Sequence[Line], width: int, height: int) -> None:
    longest = max((line.width / line.height * height / width for line in lines), default=0)
    if longest > _SQUEEZED:
        wide = math.ceil(longest * width / _STEP) * _STEP
        warnings.warn(
            f"a line is {longest:.1f} times as long as the recogniser's input of {width}x{height} "
            f"takes: squeezed into it, it is likely to be misread. Prepare the recogniser with a "
            f"wider input, such as 1,3,{height},{wide} (anynpu build --shape)",
            stacklevel=3,
        )


_STEP = 32
"""Recognisers are as wide as multiples of that."""


def _whole(rgb: Pixels) -> Line:
    height, width = rgb.shape[:2]
    corners = np.array([(0, 0), (0, height), (width, height), (width, 0)], np.float64)
    return Line(corners, width, height)


def _divided(line: Line, scale: tuple[float, float]) -> Line:
    return Line(line.corners / scale, line.width / scale[0], line.height / scale[1])


def _characters(given: Sequence[str] | str | os.PathLike[str], classes: int) -> list[str]:
    """The characters after the blank, with the space at the end."""
    if isinstance(given, (str, os.PathLike)):
        found = Path(given).read_text(encoding="utf-8").split("\n")
        source = os.fspath(given)
        if found and not found[-1]:
            found.pop()
    else:
        found, source = list(given), "characters"
    if len(found) == classes - 2:
        found.append(" ")
    if len(found) != classes - 1:
        raise OptionError(
            f"the recogniser tells {classes - 1} characters and a blank apart, and {source} has "
            f"{len(found)} characters: give those that it was trained with, in their order"
        )
    return found


def _check_recogniser(network: PictureNetwork) -> None:
    shapes = [output.shape for output in network.outputs]
    if len(shapes) != 1 or len(shapes[0]) not in (3, 4) or shapes[0][0] != 1:
        raise TensorError(
            f"a recogniser has one output of (1, columns, characters); the model has "
            f"{', '.join(map(str, network.outputs))}"
        )


def _check_detector(network: PictureNetwork) -> None:
    width, height = network.size
    shapes = [output.shape for output in network.outputs]
    if shapes != [(1, 1, height, width)]:
        raise TensorError(
            f"a detector of text has one output of a probability for each pixel, (1, 1, {height}, "
            f"{width}); the model has {', '.join(map(str, network.outputs))}"
        )
