"""`Detector`: boxes, scores, classes and names of the things in a picture."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from . import heads, masks, normalization
from .cells import Activation, Cells, Output, is_no_opinion
from .detections import Detections
from .labels import Names, class_names, read_names
from .letterbox import Canvas, Placement
from .network import PictureNetwork, Source, pixels_of
from .pictures import Picture, as_rgb
from .suppression import suppress

_COARSE = 0.1
"""Scores in larger steps than that are lost: an output's boxes and scores share one scale."""


class DetectorWarning(UserWarning):
    """A threshold or a model with which boxes will be many, or none."""


class Detector:
    """A detecting network in a session or a `Model`, which the caller opens and closes.

        with anynpu.InferenceSession("yolov8n.rknn") as session:
            detector = Detector(session)
            for thing in detector("street.jpg"):
                print(thing.name, thing.score, thing.box)

    `head` is a name of `anynpu.vision.heads.HEADS`, a `Head`, or None for the only one that the
    model's outputs fit. `names` are the classes', or a file with a name a line; None for COCO's 80.
    `threshold` is the least score; `overlap` the intersection over union above which of two boxes
    of a class the better one is kept, of any class with `across_classes`; `most` how many things
    are kept. `is_stretched` fills the network's input with the picture, the sides' ratio aside.

    `mean` and `std`, a number or one for each channel, normalise pixels here, as (x - mean) / std;
    without them the model does it, as compiled ones do. `is_bgr` gives channels as BGR; None is as
    the head's networks are trained.

    Open a session with ``output_dtype="model"`` for the least work: thresholds are compared with
    the integers of quantised outputs, and only what reaches them is dequantised.

    Raises `TensorError` where the model's input or outputs don't fit, `OptionError` for an unknown
    head, for outputs that may be of several, and for a number out of its range.
    """

    def __init__(
        self,
        session: Source,
        head: str | heads.Head | None = None,
        *,
        names: Names = None,
        threshold: float = 0.25,
        overlap: float = 0.45,
        across_classes: bool = False,
        most: int = 300,
        is_stretched: bool = False,
        is_bgr: bool | None = None,
        mean: normalization.Channels = None,
        std: normalization.Channels = None,
    ) -> None:
        self._network = PictureNetwork(session)
        outputs = self._network.outputs
        given = read_names(names)
        self.head_name, self._head = heads.choose(
            head, outputs, self._network.size, None if given is None else len(given)
        )
        self.names = class_names(given, self._head.classes(outputs))
        self.threshold = _checked("threshold", threshold)
        self.overlap = _checked("overlap", overlap)
        self._across_classes, self._most = across_classes, most
        fitting = self._head.fitting
        self._fitting = fitting.stretched() if is_stretched else fitting
        self._is_bgr = self._head.is_bgr if is_bgr is None else is_bgr
        self._normalization = normalization.chosen(
            normalization.given(mean, std),
            session.normalizations[0],
            normalization.scaled_to(self._head.pixel_range),
        )
        self._is_checked = False

    @property
    def input_size(self) -> tuple[int, int]:
        """(width, height) of the network's input."""
        return self._network.size

    def __call__(self, picture: Picture) -> Detections:
        """The things in a picture: a path, a uint8 RGB array (height, width, 3), a Pillow image.

        Raises `TensorError` for an array that is no picture, OSError for a file that can't be read.
        """
        pixels, place = self._prepare(picture, Canvas(self._fitting, self.input_size))
        return self._found(self._network.run(pixels), place)

    def stream(self, pictures: Iterable[Picture]) -> Iterator[Detections]:
        """The things in each picture, in order, with all of a session's cores at work.

        It reads ahead some pictures for each core, and keeps none of them. Dropping the iterator
        drops what is under way.
        """
        places: deque[Placement] = deque()
        canvas = Canvas(self._fitting, self.input_size)

        def prepared() -> Iterator[NDArray[np.generic]]:
            for picture in pictures:
                pixels, place = self._prepare(picture, canvas)
                places.append(place)
                yield pixels

        for outputs in self._network.stream(prepared()):
            yield self._found(outputs, places.popleft())

    def decode(self, outputs: Sequence[Output], picture: tuple[int, int]) -> Detections:
        """The things that outputs say of a picture of (width, height); for outputs from elsewhere.

        `outputs` are those of `Output`, in the model's order.
        """
        return self._found(outputs, self._fitting.place(picture, self.input_size))

    def _prepare(self, picture: Picture, canvas: Canvas) -> tuple[NDArray[np.generic], Placement]:
        pixels, place = canvas.fit(as_rgb(picture))
        ordered = pixels_of(pixels, is_bgr=self._is_bgr)
        return normalization.apply(ordered, self._normalization), place

    def _found(self, outputs: Sequence[Output], place: Placement) -> Detections:
        self._check_scores(outputs)
        size = self.input_size
        found = self._head.decode(outputs, size, self.threshold)
        kept = self._kept(found)
        numbers = found.classes[kept]
        boxes = place.boxes_to_picture(found.boxes[kept])
        crops = None
        if found.coefficients is not None and found.prototypes is not None:
            wanted = found.coefficients[kept]
            crops = tuple(masks.crops(wanted, found.prototypes, boxes, place, size))
        points = None
        if found.keypoints is not None:
            points = found.keypoints[kept].copy()
            points[..., :2] = place.to_picture(points[..., :2])
        return Detections(
            boxes,
            found.scores[kept],
            numbers,
            tuple(map(self._name, numbers.tolist())),
            place.picture,
            points,
            crops,
        )

    def _kept(self, found: heads.Candidates) -> NDArray[np.intp]:
        """The best for each thing; boxes without an area, or that aren't numbers, are none."""
        extent = found.boxes[:, 2:] - found.boxes[:, :2]
        sound = np.flatnonzero(np.isfinite(found.boxes).all(axis=1) & (extent > 0).all(axis=1))
        boxes, scores, classes = found.boxes[sound], found.scores[sound], found.classes[sound]
        if self._head.suppresses:
            kept = suppress(
                boxes, scores, classes, self.overlap, across_classes=self._across_classes
            )
        else:
            kept = np.argsort(-scores, kind="stable")
        return sound[kept[: self._most]]

    def _name(self, number: int) -> str:
        return self.names[number] if 0 <= number < len(self.names) else f"class {number}"

    def _check_scores(self, outputs: Sequence[Output]) -> None:
        """Once, with the first outputs: whether the threshold makes sense for their integers."""
        if self._is_checked:
            return
        self._is_checked = True
        for cells, _, activation in self._head.scores(outputs):
            self._check_step(cells, activation)

    def _check_step(self, cells: Cells, activation: Activation) -> None:
        if cells.quantization is None:
            return
        if is_no_opinion(self.threshold, activation, cells.dtype, cells.quantization):
            warnings.warn(
                f"a threshold of {self.threshold:g} lies at the score of a cell without an "
                f"opinion: sigmoid(0) = 0.5, which quantised comes back as 0.5 or a little more, "
                f"so thousands of cells may pass: use 0.51 or more",
                DetectorWarning,
                stacklevel=5,
            )
        if activation is Activation.NONE and cells.step > _COARSE:
            warnings.warn(
                f"scores are quantised in steps of {cells.step:.3g}, so all below that are 0: "
                f"boxes in pixels and scores share one output. Export boxes and scores as outputs "
                f"of their own, or boxes in parts of the picture",
                DetectorWarning,
                stacklevel=5,
            )


def _checked(name: str, value: float) -> float:
    if not 0 < value <= 1:
        raise OptionError(f"{name} is {value!r}; it takes a number above 0 and at most 1")
    return float(value)
