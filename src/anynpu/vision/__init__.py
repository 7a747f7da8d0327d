"""Around a network: pictures in, things in pictures out.

    from anynpu.vision import Detector

    with anynpu.InferenceSession("yolov8n.rknn") as session:
        for thing in Detector(session)("street.jpg"):
            print(thing.name, thing.score, thing.box)

`Detector`, `Classifier` and `TextReader` take a picture's path, a uint8 RGB array (H, W, 3) or a
Pillow image. `heads` reads boxes from what detectors return, `letterbox` fits pictures into
networks, `frames` are pictures from files, videos and cameras, `drawing` shows what was found.
Needs OpenCV and, to draw and for videos, supervision and PyAV (``pip install 'anynpu[vision]'``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import Classification, Classifier
    from .detections import Detection, Detections
    from .detector import Detector, DetectorWarning
    from .heads import HEADS, Head
    from .letterbox import Fitting, Placement
    from .pictures import Picture, read_picture, write_picture
    from .text_reader import TextLine, TextReader

_HOMES = {
    "classifier": ("Classification", "Classifier"),
    "detections": ("Detection", "Detections"),
    "detector": ("Detector", "DetectorWarning"),
    "heads": ("HEADS", "Head"),
    "letterbox": ("Fitting", "Placement"),
    "pictures": ("Picture", "read_picture", "write_picture"),
    "text_reader": ("TextLine", "TextReader"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "HEADS",
    "Classification",
    "Classifier",
    "Detection",
    "Detections",
    "Detector",
    "DetectorWarning",
    "Fitting",
    "Head",
    "Picture",
    "Placement",
    "TextLine",
    "TextReader",
    "read_picture",
    "write_picture",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
