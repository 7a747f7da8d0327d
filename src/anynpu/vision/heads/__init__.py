"""Detectors' heads by name: what their outputs look like, and how boxes are read from them.

A name stands for all forms in which that network is exported: split heads as the vendors' zoos
export them, and single outputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...errors import OptionError, TensorError
from ..cells import Output
from ..letterbox import Fitting
from .anchored import YOLOV3_TINY, YOLOV5, YOLOV7, Anchored, Anchors
from .distances import Distances
from .grids import Grids
from .head import Candidates, Head, Size
from .single import Columns, EndToEnd, GridRows, Rows
from .ssd import Ssd

__all__ = [
    "HEADS",
    "YOLOV3_TINY",
    "YOLOV5",
    "YOLOV7",
    "Anchored",
    "Anchors",
    "Candidates",
    "Columns",
    "Distances",
    "EndToEnd",
    "Grids",
    "Head",
    "Rows",
    "Size",
    "Ssd",
    "choose",
]

_MASKS, _POINTS = 32, 17
_DARKNET = Fitting(fill=128)
_MEGVII = Fitting(is_centred=False)
_STRETCHED = Fitting(is_stretched=True)

_three_rows = Rows(per_cell=3, pixel_range=1.0)
_columns = Columns(pixel_range=1.0)
_distances = Distances(pixel_range=1.0)
_columns_with_masks = Columns(masks=_MASKS, pixel_range=1.0)
_columns_with_points = Columns(points=_POINTS, pixel_range=1.0)
_distances_with_masks = Distances(masks=_MASKS, pixel_range=1.0)
_distances_with_points = Distances(points=_POINTS, pixel_range=1.0)

HEADS: Mapping[str, tuple[Head, ...]] = {
    "yolov3-tiny": (
        Anchored(anchors=YOLOV3_TINY, is_darknet=True, fitting=_DARKNET, pixel_range=1.0),
    ),
    "yolov5": (_three_rows, Anchored(anchors=YOLOV5, pixel_range=1.0)),
    "yolov5-seg": (
        Rows(per_cell=3, masks=_MASKS, pixel_range=1.0),
        Anchored(anchors=YOLOV5, masks=_MASKS, pixel_range=1.0),
    ),
    "yolov6": (Rows(pixel_range=1.0), _distances),
    "yolov7": (_three_rows, Anchored(anchors=YOLOV7, pixel_range=1.0)),
    "yolov8": (_columns, _distances),
    "yolov8-seg": (_columns_with_masks, _distances_with_masks),
    "yolov8-pose": (_columns_with_points, _distances_with_points),
    "yolov10": (
        EndToEnd(pixel_range=1.0, suppresses=False),
        replace(_distances, suppresses=False),
    ),
    "yolo11": (_columns, _distances),
    "yolo11-seg": (_columns_with_masks, _distances_with_masks),
    "yolo11-pose": (_columns_with_points, _distances_with_points),
    "yolox": (GridRows(fitting=_MEGVII, is_bgr=True), Grids(fitting=_MEGVII, is_bgr=True)),
    "ssd": (Ssd(fitting=_STRETCHED),),
}
"""By name, the forms in which a network is exported."""

_UNLESS_NAMED = frozenset({"yolov10"})
"""Their outputs look like those of others, with which they share all but the suppression."""


def choose(
    head: str | Head | None, outputs: Sequence[Output], size: Size, classes: int | None = None
) -> tuple[str, Head]:
    """(name, form) of a head that fits outputs of a network with an input of (width, height).

    None chooses by the outputs alone: of several that fit, the one whose number of classes is
    `classes`, or the usual one where that isn't known. Raises `OptionError` for an unknown name and
    where outputs may be of several heads, `TensorError` where they don't fit.
    """
    if isinstance(head, Head):
        if not head.fits(outputs, size):
            raise TensorError(
                f"{type(head).__name__} takes {head.wants}; the model, with an input of "
                f"{size[0]}x{size[1]}, has {_described(outputs)}: name another head"
            )
        return type(head).__name__, head
    if head is None:
        return _guess(outputs, size, classes)
    if head not in HEADS:
        raise OptionError(f"there is no head {head!r}; there are {', '.join(HEADS)}")
    for form in HEADS[head]:
        if form.fits(outputs, size):
            return head, form
    raise TensorError(
        f"head {head!r} takes {' or '.join(form.wants for form in HEADS[head])}; the model, with "
        f"an input of {size[0]}x{size[1]}, has {_described(outputs)}: {_advice(outputs, size)}"
    )


def _guess(outputs: Sequence[Output], size: Size, classes: int | None) -> tuple[str, Head]:
    fitting = _fitting(outputs, size)
    likely = [
        (name, form)
        for name, form in fitting
        if form.classes(outputs) == (form.usual_classes if classes is None else classes)
    ]
    found = likely or fitting
    forms = {id(form) for name, form in found if name not in _UNLESS_NAMED}
    if len(forms) == 1 or (found and not forms):
        return found[0]
    if not found:
        raise TensorError(
            f"no head takes the model's outputs, {_described(outputs)}, with an input of "
            f"{size[0]}x{size[1]}: {_advice(outputs, size)}"
        )
    names = ", ".join(dict.fromkeys(name for name, _ in found))
    raise OptionError(
        f"the model's outputs, {_described(outputs)}, may be of several heads: name the one that "
        f"the network has (head=, --head), of {names}"
    )


def _fitting(outputs: Sequence[Output], size: Size) -> list[tuple[str, Head]]:
    return [
        (name, form)
        for name, forms in sorted(HEADS.items(), key=lambda item: item[0] in _UNLESS_NAMED)
        for form in forms
        if form.fits(outputs, size)
    ]


def _advice(outputs: Sequence[Output], size: Size) -> str:
    names = list(dict.fromkeys(name for name, _ in _fitting(outputs, size)))
    if names:
        return f"they are those of {' or '.join(names)}"
    if len(outputs) == 1 and math.prod(outputs[0].shape) == max(outputs[0].shape):
        return "a number for each class is a classifier's (Classifier, anynpu classify)"
    return (
        f"export it as docs/vision.md has it for one of {', '.join(HEADS)}, or pass a Head of your "
        f"own"
    )


def _described(outputs: Sequence[Output]) -> str:
    return ", ".join(map(str, outputs))
