"""Pictures of any kind as uint8 RGB arrays (height, width, 3)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentTypeError, TensorError

if TYPE_CHECKING:
    from PIL import Image

Pixels: TypeAlias = NDArray[np.uint8]
Picture: TypeAlias = "str | os.PathLike[str] | NDArray[Any] | Image.Image"
"""A file's path, an array or a Pillow image; what `as_rgb` takes."""

_FROM_CHANNELS = {1: cv2.COLOR_GRAY2RGB, 4: cv2.COLOR_RGBA2RGB}


def as_rgb(picture: Picture) -> Pixels:
    """A picture as uint8 RGB (height, width, 3); an array that is that already isn't copied.

    Arrays are RGB, grey (height, width) or (height, width, 1), or RGBA, whose alpha is dropped,
    and uint8 or bool. Raises `TensorError` for an array that is no picture, or an empty one,
    `ArgumentTypeError` for another type, OSError for a file that can't be read.
    """
    if isinstance(picture, (str, os.PathLike)):
        return read_picture(picture)
    if isinstance(picture, np.ndarray):
        return _array_as_rgb(picture)
    if hasattr(picture, "convert"):
        return _array_as_rgb(np.asarray(picture.convert("RGB")))
    raise ArgumentTypeError(
        f"a picture is a path, a uint8 array (height, width, 3) or a Pillow image; found a "
        f"{type(picture).__name__}"
    )


def read_picture(path: str | os.PathLike[str]) -> Pixels:
    """A file as uint8 RGB (height, width, 3), turned as its EXIF data says.

    Raises OSError for a file that isn't there or is no picture that OpenCV reads.
    """
    encoded = np.frombuffer(Path(path).read_bytes(), np.uint8)
    found: Any = cv2.imdecode(encoded, cv2.IMREAD_COLOR) if encoded.size else None
    if found is None:
        raise OSError(f"{os.fspath(path)} is no picture that OpenCV reads, such as a JPEG or a PNG")
    return bgr_as_rgb(found)


def bgr_as_rgb(bgr: NDArray[Any]) -> Pixels:
    """What OpenCV reads, as RGB: a new array."""
    return _converted(bgr, cv2.COLOR_BGR2RGB)


def write_picture(path: str | os.PathLike[str], rgb: Pixels) -> None:
    """Write uint8 RGB (height, width, 3); the name's ending chooses the format.

    Raises OSError where that ending is unknown or the file can't be written.
    """
    target = Path(path)
    check_ending(target)
    _, data = cv2.imencode(target.suffix, cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
    target.write_bytes(data.tobytes())


def check_ending(path: Path) -> None:
    """Raise OSError where OpenCV writes no pictures whose names end like that."""
    if not cv2.haveImageWriter(path.name):
        raise OSError(
            f"{path}: OpenCV writes no pictures that end in {path.suffix!r}: name it .png or .jpg"
        )


def _array_as_rgb(array: NDArray[Any]) -> Pixels:
    shape = array.shape
    channels = shape[2] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or channels not in (1, 3, 4):
        raise TensorError(
            f"a picture is an array of (height, width, 3), (height, width) or (height, width, 4); "
            f"found the shape {shape}: pass one picture at a time, pixels last"
        )
    if 0 in shape:
        raise TensorError(f"the picture is empty: its shape is {shape}, it has no pixels")
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * np.uint8(255)
    if array.dtype != np.uint8:
        raise TensorError(
            f"a picture's values are uint8, 0 to 255; found {array.dtype}: convert them, such as "
            f"by (picture * 255).astype(np.uint8) for values of 0 to 1"
        )
    if channels == 3:
        return array
    return _converted(array, _FROM_CHANNELS[channels])


def _converted(array: NDArray[Any], code: int) -> Pixels:
    found: Any = cv2.cvtColor(np.ascontiguousarray(array), code)
    pixels: Pixels = found
    return pixels
