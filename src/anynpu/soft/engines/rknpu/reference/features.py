"""Features between memory and arrays (C, H, W)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..elements import Element
from ..layout import feature_views, image_view
from ..memory import Memory
from ..tasks import Features, Image
from ..weights import widen


def read_atoms(memory: Memory, features: Features) -> NDArray[np.uint8]:
    """The bytes (surfaces, height, width, atom), a copy."""
    views = feature_views(features)
    if len(views) == 1:
        return np.ascontiguousarray(memory.view(views[0]))
    atoms = np.empty((features.surfaces, *views[0].shape[1:]), np.uint8)
    atoms[0::2], atoms[1::2] = memory.view(views[0]), memory.view(views[1])
    return atoms


def read_features(memory: Memory, features: Features) -> NDArray[Any]:
    """The elements (C, H, W) as stored."""
    elements = read_atoms(memory, features).view(features.element.dtype)
    surfaces, height, width, lanes = elements.shape
    planes = elements.transpose(0, 3, 1, 2).reshape(surfaces * lanes, height, width)
    channels: NDArray[Any] = planes[: features.channels]
    return channels


def read_image(memory: Memory, image: Image) -> NDArray[Any]:
    """The elements (C, H, W) as stored."""
    rows = np.ascontiguousarray(memory.view(image_view(image))).view(image.element.dtype)
    pixels = rows.reshape(image.height, image.width, image.channels)
    planes: NDArray[Any] = pixels.transpose(2, 0, 1)
    return planes


def as_numbers(values: NDArray[Any], element: Element) -> NDArray[Any]:
    """Elements to what is computed with: float32, or int64."""
    if element.is_float:
        return widen(values, element)
    return values.astype(np.int64)


def pack_atoms(values: NDArray[Any], lanes: int, padding: int) -> NDArray[np.uint8]:
    """(C, H, W) to atoms (surfaces, height, width, bytes); lanes without a channel hold padding."""
    channels, height, width = values.shape
    surfaces = -(-channels // lanes)
    if channels == surfaces * lanes:
        padded = values
    else:
        padded = np.empty((surfaces * lanes, height, width), values.dtype)
        padded[:channels] = values
        padded[channels:] = _lane(padding, values.dtype)
    atoms = padded.reshape(surfaces, lanes, height, width).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(atoms).view(np.uint8)


def _lane(padding: int, dtype: np.dtype[Any]) -> Any:
    """The lowest bytes of a register word as an element; wide elements get zero."""
    if dtype.itemsize == 4:
        return dtype.type(0)
    mask = (1 << 8 * dtype.itemsize) - 1
    unsigned = np.array(padding & mask, np.uint8 if dtype.itemsize == 1 else np.uint16)
    return unsigned.view(dtype)
