"""The names of classes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import OptionError

# fmt: off
COCO: tuple[str, ...] = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat",
    "traffic light", "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog",
    "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella",
    "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich",
    "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch",
    "potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote",
    "keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "book",
    "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)
# fmt: on
"""The 80 classes of COCO, in the order of the YOLO networks."""

_COCO_GAPS = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
"""Numbers that COCO's own list of 90 leaves out, from 1."""

Names = Sequence[str] | str | os.PathLike[str] | None


def coco_with_gaps() -> tuple[str, ...]:
    """COCO's own numbering of 91, of networks from TensorFlow: 0 is the background."""
    names = iter(COCO)
    gaps = {0: "background"} | dict.fromkeys(_COCO_GAPS, "unused")
    return tuple(gaps[number] if number in gaps else next(names) for number in range(91))


def read_names(names: Names) -> tuple[str, ...] | None:
    """Names as they are given or as a file's lines; OSError for a file that isn't there."""
    if names is None:
        return None
    if isinstance(names, (str, os.PathLike)):
        lines = Path(names).read_text(encoding="utf-8").splitlines()
        return tuple(line.strip() for line in lines if line.strip())
    return tuple(names)


def class_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The names of `count` classes: those given, or what is usual for the number.

    A `count` of 0 isn't known: then any number may be given, and COCO's 80 are usual.
    Raises `OptionError` where there is another number of them.
    """
    if names is None:
        return _usual(count)
    if count and len(names) != count:
        raise OptionError(
            f"the model tells {count} classes apart, and {len(names)} names are given: give one "
            f"for each, in the order of its training"
        )
    return tuple(names)


def _usual(count: int) -> tuple[str, ...]:
    if count in (0, len(COCO)):
        return COCO
    if count == 91:
        return coco_with_gaps()
    if count == 1:
        return ("object",)
    return tuple(f"class {number}" for number in range(count))
