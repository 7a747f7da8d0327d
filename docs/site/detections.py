"""Draw what a detector finds in four photographs of scikit-image: `make pictures`."""

from __future__ import annotations

import numpy as np
import skimage
from PIL import Image

import anynpu
from anynpu.vision import Detector
from anynpu.vision.drawing import draw_detections
from tests.shared import SHARED

from .layouts import PICTURES

_PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "stereo_motorcycle")
_TILE = (480, 340)


def draw() -> None:
    """A picture of four, each with its boxes, by YOLOX-Nano on the soft NPU in float16."""
    sheet = Image.new("RGB", (2 * _TILE[0], 2 * _TILE[1]), "white")
    with anynpu.InferenceSession(SHARED / "models/yolox_nano_416.onnx") as session:
        detector = Detector(session, "yolox", threshold=0.5)
        for number, name in enumerate(_PHOTOGRAPHS):
            loaded = getattr(skimage.data, name)()
            photograph = np.ascontiguousarray(loaded[0] if isinstance(loaded, tuple) else loaded)
            found = detector(photograph)
            print(name, *(f"{each.name} {each.score:.2f}" for each in found))
            drawn = Image.fromarray(draw_detections(photograph, found))
            drawn.thumbnail(_TILE)
            column, row = number % 2, number // 2
            place = (column * _TILE[0] + (_TILE[0] - drawn.width) // 2,
                     row * _TILE[1] + (_TILE[1] - drawn.height) // 2)  # fmt: skip
            sheet.paste(drawn, place)
    sheet.save(PICTURES / "detections.jpg", quality=85)


if __name__ == "__main__":
    draw()
