"""`Classifier`: what a whole picture shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, TensorError
from . import normalization
from .cells import Output
from .labels import Names, class_names, read_names
from .network import PictureNetwork, Source, pixels_of
from .pictures import Picture, Pixels, as_rgb

CROP = 0.875
"""The part of the shorter side that networks for ImageNet are shown, from the middle."""
_SUM_OF_PROBABILITIES = 0.05
"""How far from 1 the sum of quantised probabilities may be."""


@dataclass(frozen=True)
class Classification:
    """What a picture may show, the likeliest first: probabilities, classes and their names."""

    scores: NDArray[np.float32]
    classes: NDArray[np.intp]
    names: tuple[str, ...]

    def as_dicts(self) -> list[dict[str, Any]]:
        """A dict for each, of plain numbers and texts, such as for JSON."""
        return [
            {"name": name, "class": number, "score": round(score, 4)}
            for name, number, score in zip(
                self.names, self.classes.tolist(), self.scores.tolist(), strict=True
            )
        ]


class Classifier:
    """A classifying network in a session or a `Model`, which the caller opens and closes.

        classifier = Classifier(session, names="imagenet.txt")
        print(classifier("cup.jpg").names[0])

    `names` are the classes', or a file with a name a line. `top` is how many are returned, `crop`
    the part of the picture's shorter side that the network is shown, from the middle. `mean`, `std`
    and `is_bgr` are as for `Detector`. Outputs that are no probabilities go through softmax. A file
    that normalises nothing gets pixels of 0 to 255 without them, which is said as an
    `InputWarning`.

    Raises `TensorError` where the model isn't of one picture and one row of scores.
    """

    def __init__(
        self,
        session: Source,
        *,
        names: Names = None,
        top: int = 5,
        crop: float = CROP,
        is_bgr: bool = False,
        mean: normalization.Channels = None,
        std: normalization.Channels = None,
    ) -> None:
        self._network = PictureNetwork(session)
        outputs = self._network.outputs
        count = int(np.prod(outputs[0].shape)) if len(outputs) == 1 else 0
        if count < 2 or count != max(outputs[0].shape):
            raise TensorError(
                f"a classifier has one output of a score for each class; the model has "
                f"{', '.join(map(str, outputs))}: is it a detector?"
            )
        if not 0 < crop <= 1:
            raise OptionError(f"crop is {crop!r}; it takes a number above 0 and at most 1")
        if top < 1:
            raise OptionError(f"top is {top!r}; it takes a number of classes, 1 or more")
        self.names = class_names(read_names(names), count)
        self._top, self._crop, self._is_bgr = min(top, count), crop, is_bgr
        self._normalization = normalization.asked_or_none(
            normalization.given(mean, std), session.normalizations[0]
        )

    @property
    def input_size(self) -> tuple[int, int]:
        """(width, height) of the network's input."""
        return self._network.size

    def __call__(self, picture: Picture) -> Classification:
        """What a picture may show; pictures are as `Detector` takes them."""
        return self._found(self._network.run(self._prepare(picture)))

    def stream(self, pictures: Iterable[Picture]) -> Iterator[Classification]:
        """What each picture may show, in order, with all of a session's cores at work."""
        return map(self._found, self._network.stream(map(self._prepare, pictures)))

    def _prepare(self, picture: Picture) -> NDArray[np.generic]:
        shown = _middle(as_rgb(picture), self._crop, self.input_size)
        return normalization.apply(pixels_of(shown, is_bgr=self._is_bgr), self._normalization)

    def _found(self, outputs: Sequence[Output]) -> Classification:
        scores = probabilities(outputs[0].real().ravel())
        best = np.argpartition(-scores, self._top - 1)[: self._top]
        best = best[np.argsort(-scores[best], kind="stable")]
        return Classification(scores[best], best, tuple(self.names[n] for n in best.tolist()))


def probabilities(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores that sum to 1 as they are, others through softmax."""
    if scores.min() >= 0 and abs(float(scores.sum()) - 1) < _SUM_OF_PROBABILITIES:
        return scores
    weights = np.exp(scores - scores.max())
    result: NDArray[np.float32] = weights / weights.sum()
    return result


def _middle(rgb: Pixels, crop: float, size: tuple[int, int]) -> Pixels:
    """The middle of a picture with the sides' ratio of `size`, scaled to it."""
    height, width = rgb.shape[:2]
    scale = min(width / size[0], height / size[1]) * crop
    across, down = (max(1, round(side * scale)) for side in size)
    left, top = (width - across) // 2, (height - down) // 2
    part = rgb[top : top + down, left : left + across]
    shrinks = across > size[0]
    kind = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    scaled: Any = cv2.resize(part, size, interpolation=kind)
    pixels: Pixels = scaled
    return pixels
