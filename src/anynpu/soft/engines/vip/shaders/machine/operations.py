"""What each operation computes, but for those that read and write memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ...refusal import Unknown
from ...rounding import normal_halves, to_halves
from .instructions import Condition, Instruction
from .state import ALL_ITEMS, Array, Items, Part
from .types import DTYPES, LANE_KINDS, Kind


def asked_of(condition: Condition, left: Array, right: Array | None = None) -> NDArray[np.bool_]:
    """Whether something is true of values, compared with others or with zero."""
    other = np.zeros(1, left.dtype) if right is None else right
    result: NDArray[np.bool_] = _CONDITIONS[condition](_keys(left), _keys(other))
    return result


def _keys(values: Array) -> Array:
    """What values are compared by."""
    if values.dtype != np.float16:
        return values
    bits = np.ascontiguousarray(values).view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


_CONDITIONS: Mapping[Condition, Callable[[Array, Array], Array]] = {
    Condition.GT: np.greater,
    Condition.LT: np.less,
    Condition.GE: np.greater_equal,
    Condition.LE: np.less_equal,
    Condition.EQ: np.equal,
    Condition.NE: np.not_equal,
    Condition.ZERO: np.equal,
    Condition.NOT_ZERO: np.not_equal,
    Condition.GEZ: np.greater_equal,
    Condition.GZ: np.greater,
    Condition.LEZ: np.less_equal,
    Condition.LZ: np.less,
}

Function = Callable[[Part, Instruction, int, Items], None]


def _of_values(function: Callable[..., Array]) -> Function:
    """An operation on each component, or lane, of its sources."""

    def carried_out(part: Part, instruction: Instruction, place: int, items: Items) -> None:
        given = [part.values(instruction, source, items) for source in instruction.sources]
        part.put(instruction, function(*given), items)

    return carried_out


def _pair(function: Callable[..., Array]) -> Function:
    """An operation that leaves two factors, whose product is its result: it and one, here."""

    def carried_out(part: Part, instruction: Instruction, place: int, items: Items) -> None:
        given = [part.words(s, Kind.F32, items) for s in instruction.sources]
        if len(instruction.mask) != 2:
            raise Unknown(f"{instruction.name!r} that writes {len(instruction.mask)} components")
        values = function(*given)
        pair = np.ones((values.shape[0], 4), np.float32)
        first = instruction.mask[0]
        pair[:, first] = values[:, first]
        part.put(instruction, pair, items)

    return carried_out


def _in_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def rounded(values: Array) -> Array:
        result: Array = function(values.astype(np.float64)).astype(np.float32)
        return result

    return rounded


def _dot(left: Array, right: Array) -> Array:
    exact = (left.astype(np.float64) * right).sum(-1, keepdims=True)
    rounded: Array = exact.astype(np.float32).repeat(4, 1)
    return rounded


def _mov(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """A move, or one of the components for which something is true."""
    *compared, source = instruction.sources
    values = part.values(instruction, source, items)
    if not compared:
        part.put(instruction, values, items)
        return
    left, right = (part.words(s, instruction.kind, items) for s in compared)
    before = part.target(instruction)[items].view(values.dtype)
    asked = asked_of(instruction.condition, left, right)
    part.put(instruction, np.where(asked, values, before), items)


def _sel(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    first, second, third = instruction.sources
    left, right, other = (part.values(instruction, s, items) for s in (first, second, third))
    if instruction.condition is Condition.TOP_BIT:
        is_first = part.raw(first, items) >> 31 == 1
    elif instruction.condition in _BINARY:
        is_first = asked_of(instruction.condition, left, right)
    else:
        is_first = asked_of(instruction.condition, left)
    part.put(instruction, np.where(is_first, right, other), items)


_BINARY = (
    Condition.GT, Condition.LT, Condition.GE, Condition.LE, Condition.EQ, Condition.NE
)  # fmt: skip


def _cmp(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    first, second, third = instruction.sources
    asked = asked_of(
        instruction.condition,
        part.values(instruction, first, items),
        part.values(instruction, second, items),
    )
    lanes = instruction.is_packed and DTYPES[instruction.kind].itemsize < 4
    bits = part.raw(third, items)
    given = bits.view(DTYPES[instruction.kind]) if lanes else bits
    part.put(instruction, np.where(asked, given, np.zeros(1, given.dtype)), items)


def _shl(values: Array, by: Array) -> Array:
    result: Array = values << (by & 31)
    return result


def _shr(values: Array, by: Array) -> Array:
    result: Array = values >> (by & np.array(values.dtype.itemsize * 8 - 1, by.dtype))
    return result


def _mad(left: Array, right: Array, added: Array) -> Array:
    result: Array = left * right + added
    return result


def _upper(left: Array, right: Array) -> Array:
    """The upper half of products of whole numbers without a sign."""
    result: Array = (left.astype(np.uint64) * right >> np.uint64(32)).astype(np.uint32)
    return result


def _clamp0max(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    first, second = instruction.sources[:2]
    values, most = (part.words(source, instruction.kind, items) for source in (first, second))
    part.put(instruction, np.minimum(np.maximum(values, 0), most), items)


def _divided(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """The quotient or the rest of whole numbers of a type; toward zero.

    The rest of a division by zero is zero: files have such a one in what says which part of the
    memory that groups have for themselves a group takes, where it makes no difference.
    """
    first, second = instruction.sources
    dtype = DTYPES[instruction.kind]
    left, right = (
        part.words(source, instruction.kind, items).astype(dtype).astype(np.int64)
        for source in (first, second)
    )
    left, right = left[:, list(instruction.mask)], right[:, list(instruction.mask)]
    if instruction.name == "idiv" and not right.all():
        raise Unknown("a division by zero")
    quotient = np.abs(left) // np.maximum(np.abs(right), 1) * np.sign(left) * np.sign(right)
    found = quotient if instruction.name == "idiv" else left - quotient * right
    found = np.where(right == 0, 0, found)
    size = part.size(items)
    bits = np.zeros((size, 4), np.uint32)
    bits[:, list(instruction.mask)] = found.astype(np.int64).astype(np.uint32)
    part.put_words(instruction, bits, items)


def _to_whole(function: Callable[[Array], Array]) -> Function:
    def carried_out(part: Part, instruction: Instruction, place: int, items: Items) -> None:
        (source,) = instruction.sources
        values = function(part.words(source, Kind.F32, items).astype(np.float64))
        limits = np.iinfo(DTYPES[instruction.kind])  # type: ignore[type-var]
        whole = np.clip(np.nan_to_num(values, nan=0.0), limits.min, limits.max).astype(np.int64)
        part.put(instruction, whole.astype(np.uint32), items)

    return carried_out


def _i2f(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    (source,) = instruction.sources
    part.put(instruction, part.words(source, instruction.kind, items).astype(np.float32), items)


_KIND_BITS = 4


def _i2i(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    source, form = instruction.sources
    kind = LANE_KINDS[form.number >> _KIND_BITS]
    values = part.words(source, kind, items).astype(DTYPES[kind]).astype(np.int64)
    part.put(instruction, values.astype(DTYPES[instruction.kind]).astype(np.int64).astype(
        np.uint32), items)  # fmt: skip


_NO_HALF = np.uint16(0xFE00)
"""What no number becomes, of which there is one."""


def _conv(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Between float32 and float16, which is the lower half of a component."""
    source, _ = instruction.sources
    if instruction.kind is Kind.F32:
        halves = part.raw(source, items).astype(np.uint16).view(np.float16)
        part.put(instruction, normal_halves(halves).astype(np.float32), items)
        return
    real = part.words(source, Kind.F32, items)
    bits = np.where(np.isnan(real), _NO_HALF, to_halves(real).view(np.uint16))
    part.put(instruction, bits.astype(np.uint32), items)


_PLACES = 8
"""Lanes that a component of a pattern has a place for."""


def _swizzle(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Lanes by a pattern of four bits each, where a mask has a bit for each byte."""
    source, pattern, mask = instruction.sources
    dtype = DTYPES[instruction.kind]
    count = 16 // dtype.itemsize
    order = part.raw(pattern, ALL_ITEMS)[0].tolist()
    chosen = [order[lane // _PLACES] >> 4 * (lane % _PLACES) & 15 for lane in range(count)]
    if max(chosen) >= count:
        raise Unknown(f"lane {max(chosen)} of {count}")
    lanes = part.octets(source, items).view(dtype)[:, chosen]
    is_put = [bool(mask.number >> lane * dtype.itemsize & 1) for lane in range(count)]
    size = part.size(items)
    target = np.ascontiguousarray(part.target(instruction)[items]).view(dtype)
    whole = np.where(np.array(is_put), np.broadcast_to(lanes, (size, count)), target)
    part.put_words(instruction, np.ascontiguousarray(whole).view(np.uint32), items)


def _products(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    *sources, _ = instruction.sources
    products = part.program.products[place]
    given = [part.octets(own, items) for source in sources for own in source.registers]
    part.put_lanes(instruction, products.values(given), items)


def _of_lanes(is_further: Callable[[Array, Array], Array], is_along: bool) -> Function:
    """The least or greatest of three lanes: one of each source, or three side by side."""

    def carried_out(part: Part, instruction: Instruction, place: int, items: Items) -> None:
        dtype = DTYPES[instruction.kind]
        given = [part.octets(s, items).view(dtype) for s in instruction.sources]
        lanes = slice(instruction.first_lane, instruction.last_lane + 1)
        if is_along:
            count = instruction.last_lane - instruction.first_lane + 1
            (row,) = given
            parts = [row[:, start : start + count] for start in range(3)]
        else:
            parts = [row[:, lanes] for row in given]
        result = parts[0]
        for other in parts[1:]:
            result = np.where(is_further(_keys(other), _keys(result)), other, result)
        part.put_lanes(instruction, result, items)

    return carried_out


def _clamp(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Lanes of the first source, not less than those of the second nor more than the third's."""
    dtype = DTYPES[instruction.kind]
    given = [part.octets(s, items).view(dtype) for s in instruction.sources]
    lanes = slice(instruction.first_lane, instruction.last_lane + 1)
    values, least, most = (row[:, lanes] for row in given)
    part.put_lanes(instruction, np.minimum(np.maximum(values, least), most), items)


def _is_within(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Whether lanes are within limits: the highest bit; of the others nothing is known."""
    kind = instruction.lane_kinds[0]
    given = [part.octets(s, items).view(DTYPES[kind]) for s in instruction.sources]
    lanes = slice(instruction.first_lane, instruction.last_lane + 1)
    values, least, most = (row[:, lanes] for row in given)
    others = part.unknown * 0x101 & 0x7FFF
    inside = (least <= values) & (values <= most)
    found = (inside.astype(np.uint16) << 15 | others).astype(np.uint16)
    part.put_lanes(instruction, found.view(np.int16), items)


_OFFSETS, _WIDTHS = slice(0, 8), slice(8, 16)
"""Bytes of the third source of `bit_extract`."""


def _bit_extract(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """Lanes of two sources, which are 256 bits: each from some bit on, and so many bits."""
    dtype = DTYPES[instruction.kind]
    low, high, bits = (part.octets(s, items) for s in instruction.sources)
    first, count = instruction.first_lane, instruction.last_lane - instruction.first_lane + 1
    if first not in (0, _OFFSETS.stop) or count > _OFFSETS.stop:
        raise Unknown(f"{count} lanes from lane {first} on of a 'bit_extract'")
    starts, widths = bits[:, _OFFSETS][:, :count], bits[:, _WIDTHS][:, :count]
    if (starts & 7).any() or (widths != 8 * dtype.itemsize).any():
        raise Unknown("a 'bit_extract' of other bits than whole values")
    size = part.size(items)
    both = np.concatenate([np.broadcast_to(half, (size, 16)) for half in (low, high)], 1)
    places = (starts >> 3)[..., None] + np.arange(dtype.itemsize)
    if int(places.max()) >= both.shape[1]:
        raise Unknown("a 'bit_extract' of bits beyond the second source")
    places = np.broadcast_to(places, (size, count, dtype.itemsize)).reshape(size, -1)
    taken = np.ascontiguousarray(np.take_along_axis(both, places.astype(np.int64), 1))
    part.put_lanes(instruction, taken.view(dtype), items)


def _nothing(part: Part, instruction: Instruction, place: int, items: Items) -> None:
    """All items are here."""


OPERATIONS: Mapping[str, Function] = {
    "add": _of_values(np.add),
    "mad": _of_values(_mad),
    "mul": _of_values(np.multiply),
    "dp4": _of_values(_dot),
    "mov": _mov,
    "rcp": _of_values(_in_double(np.reciprocal)),
    "rsq": _of_values(_in_double(lambda values: 1 / np.sqrt(values))),
    "sel": _sel,
    "exp": _of_values(_in_double(np.exp2)),
    "log": _pair(_in_double(np.log2)),
    "sign": _of_values(np.sign),
    "sqrt": _of_values(np.sqrt),
    "floor": _of_values(np.floor),
    "ceil": _of_values(np.ceil),
    "barrier": _nothing,
    "swizzle": _swizzle,
    "i2i": _i2i,
    "i2f": _i2f,
    "f2i": _to_whole(np.trunc),
    "f2irnd": _to_whole(np.rint),
    "cmp": _cmp,
    "iabs": _of_values(np.abs),
    "clamp0max": _clamp0max,
    "imulhi": _of_values(_upper),
    "imullo": _of_values(np.multiply),
    "idiv": _divided,
    "imod": _divided,
    "imadlo": _of_values(_mad),
    "shl": _of_values(_shl),
    "shr": _of_values(_shr),
    "or": _of_values(np.bitwise_or),
    "and": _of_values(np.bitwise_and),
    "xor": _of_values(np.bitwise_xor),
    "not": _of_values(np.invert),
    "div": _pair(np.divide),
    "conv": _conv,
    "dp16x1": _products,
    "dp8x2": _products,
    "dp4x4": _products,
    "dp2x8": _products,
    "dp32x1": _products,
    "dp16x2": _products,
    "dp4x8": _products,
    "bit_extract": _bit_extract,
    "clamp": _clamp,
    "is_within": _is_within,
    "vert_min3": _of_lanes(np.less, False),
    "vert_max3": _of_lanes(np.greater, False),
    "horz_min3": _of_lanes(np.less, True),
    "horz_max3": _of_lanes(np.greater, True),
}
