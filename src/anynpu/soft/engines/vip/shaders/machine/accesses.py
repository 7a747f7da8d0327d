"""Operations that read and write images and other memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...rounding import cut_to_half
from .instructions import Instruction
from .operations import Function
from .state import Array, ImageOf, Items, Part
from .types import DTYPES, Kind


def _image_of(part: Part, instruction: Instruction) -> ImageOf:
    return part.program.images[instruction.sources[0].number]


def _offset(bits: int) -> int:
    return (bits & 31) - ((bits & 16) << 1)


def _places(
    part: Part, instruction: Instruction, image: ImageOf, items: Items, offsets: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Addresses of pixels side by side, as (items, count), and which are inside the image."""
    at = part.words(instruction.sources[1], Kind.S32, items).astype(np.int64)
    size, along = image.dtype.itemsize, np.arange(count)
    x = at[:, :1] + _offset(offsets) + (along if image.values == 1 else 0)
    y = at[:, 1:2] + _offset(offsets >> 5)
    if image.is_clamped and instruction.name.startswith("img_load"):
        x, y = np.clip(x, 0, image.width - 1), np.clip(y, 0, image.height - 1)
    begins = at[:, 2:3] if instruction.name.endswith("_3d") else np.full((1, 1), image.start)
    is_inside = (x >= 0) & (x < image.width) & (y >= 0) & (y < image.height)
    addresses: NDArray[np.int64] = begins + y * image.row + x * (image.values * size)
    if image.values > 1:
        addresses = addresses + along * size
    return addresses, is_inside


def _lane_count(instruction: Instruction) -> int:
    if DTYPES[instruction.kind].itemsize < 4:
        return instruction.last_lane - instruction.first_lane + 1
    return len(instruction.mask)


def _img_load(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Pixels side by side to lanes, or components; what is outside stays as it is."""
    image, offsets = _image_of(part, instruction), instruction.sources[2]
    count = _lane_count(instruction)
    addresses, is_inside = _places(part, instruction, image, items, offsets.number, count)
    size = part.size(items)
    addresses = np.broadcast_to(addresses, (size, count))
    is_inside = np.broadcast_to(is_inside, (size, count))
    if not is_inside.any():
        return
    inner = addresses[is_inside]
    values = np.zeros((size, count), image.dtype)
    # Places outside stand for one inside, whose value isn't used.
    found = part.load(np.where(is_inside, addresses, inner[0]), image.dtype, items)
    dtype = DTYPES[instruction.kind]
    values = _as_loaded(found, dtype)
    lanes = part.target(instruction).view(dtype)
    first = instruction.first_lane
    kept = lanes[items, first : first + count]
    lanes[items, first : first + count] = np.where(is_inside, values, kept)


def _as_loaded(values: Array, dtype: np.dtype[Any]) -> Array:
    if values.dtype.itemsize == dtype.itemsize:
        return np.ascontiguousarray(values).view(dtype)
    return values.astype(dtype)


def _img_store(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Lanes, or components, to pixels side by side; what is outside isn't stored."""
    image, data = _image_of(part, instruction), instruction.sources[2]
    count = _lane_count(instruction)
    if instruction.mask:
        count = min(count, image.components)
    addresses, is_inside = _places(part, instruction, image, items, 0, count)
    size = part.size(items)
    dtype = DTYPES[instruction.kind]
    first = instruction.first_lane
    values = part.octets(data, items).view(dtype)[:, first : first + count]
    values = np.broadcast_to(_as_stored(values, image.dtype), (size, count))
    is_inside = np.broadcast_to(is_inside, (size, count))
    numbers = part.numbers(items)
    rows, _ = np.nonzero(is_inside)
    part.store(
        np.broadcast_to(addresses, (size, count))[is_inside], values[is_inside], numbers[rows]
    )


def _as_stored(values: Array, dtype: np.dtype[Any]) -> Array:
    if values.dtype.itemsize == dtype.itemsize:
        return np.ascontiguousarray(values).view(dtype)
    if dtype == np.float16:
        return cut_to_half(values.astype(np.float64)).astype(np.float16)
    limits = np.iinfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)


def _addresses(part: Part, instruction: Instruction, items: Items) -> NDArray[np.int64]:
    base, offset = instruction.sources[:2]
    start = part.raw(base, items)[:, :1].astype(np.int64)
    more = part.words(offset, Kind.S32, items)[:, :1].astype(np.int64) << instruction.shift
    found: NDArray[np.int64] = start + more + 4 * np.arange(len(instruction.mask))
    return found


def _load(part: Part, instruction: Instruction, _: int, items: Items) -> None:
    addresses = _addresses(part, instruction, items)
    size = part.size(items)
    if addresses.shape[0] == 1 and part.program.scratch:
        addresses = np.broadcast_to(addresses, (size, addresses.shape[1]))
    found = part.load(addresses, np.dtype(np.uint32), items)
    target = part.target(instruction)
    for place, component in enumerate(instruction.mask):
        target[items, component] = found[:, place]


def _store(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    addresses, data = _addresses(part, instruction, items), instruction.sources[2]
    size = part.size(items)
    shape = size, addresses.shape[1]
    values = np.broadcast_to(part.raw(data, items)[:, : shape[1]], shape)
    part.store(np.broadcast_to(addresses, shape), values, items)


ACCESSES: Mapping[str, Function] = {
    "load": _load,
    "store": _store,
    "img_load": _img_load,
    "img_load_3d": _img_load,
    "img_store": _img_store,
    "img_store_3d": _img_store,
}
