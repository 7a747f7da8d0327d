"""The instructions of shaders as data: a line an operation, and which bits say what of it.

An instruction has 128 bits. Names of fields and operations are those of Mesa's description of the
GC cores (MIT) and of VeriSilicon's header of the instructions on lanes (MIT); what each computes
was measured on the emulator of the chips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ...refusal import Unknown
from .types import DTYPES, LANE_KINDS, Kind, name_of

INSTRUCTION_BYTES = 16
_WORD_BYTES = 4
_LANES_OPCODE = 0x45
"""Instructions on the lanes of 128 bits, whose operation other bits say."""

MOST_INSTRUCTIONS = 1 << 12


class Condition(IntEnum):
    """What a comparison asks of two values, or of one."""

    ALWAYS = 0
    GT = 1
    LT = 2
    GE = 3
    LE = 4
    EQ = 5
    NE = 6
    ZERO = 10
    NOT_ZERO = 11
    GEZ = 12
    GZ = 13
    LEZ = 14
    LZ = 15
    TOP_BIT = 22


class Group(IntEnum):
    """Where a source's value is."""

    TEMPORARY = 0
    PAIR = 1
    UNIFORM = 2
    TABLE = 4
    IMMEDIATE = 7


class Rounding(IntEnum):
    """What bits 32 and 33 say."""

    PLAIN = 0
    TOWARD_ZERO = 1
    NEAREST = 2


class LaneRounding(IntEnum):
    """What bits 40 and 41 say of an instruction on lanes: where halves go."""

    CUT = 0
    HALF_UP = 1
    NEAREST = 2


@dataclass(frozen=True)
class Source:
    """A register and the components that are taken of it, or an immediate value of 32 bits.

    A pair is a register and the one behind it.
    """

    group: Group
    number: int
    swizzle: tuple[int, int, int, int] = (0, 1, 2, 3)
    is_negated: bool = False

    @property
    def registers(self) -> tuple[Source, ...]:
        """The two of a pair, or this one."""
        if self.group is not Group.PAIR:
            return (self,)
        return Source(Group.TEMPORARY, self.number), Source(Group.TEMPORARY, self.number + 1)


@dataclass(frozen=True)
class Instruction:
    """One instruction, resolved."""

    name: str
    kind: Kind
    condition: Condition
    target: int | None
    mask: tuple[int, ...]
    sources: tuple[Source, ...]
    """Those that it has, in their order."""
    rounding: Rounding
    is_packed: bool
    is_saturating: bool
    shift: int
    first_lane: int
    last_lane: int
    lane_kinds: tuple[Kind, Kind]
    lane_rounding: LaneRounding
    jump: int


@dataclass(frozen=True)
class _Operation:
    """What is allowed of an operation's bits.

    `kinds` are the types that it is known for, `roundings` what bits 32 and 33 may be;
    `sources` which of the three it takes. With `is_packed` it also works on lanes of 8 and 16 bits.
    `conditions` are those that it asks; others have none. With `has_signs` its sources may be
    negated; with `has_components` types of 8 and 16 bits are known of components, too.
    """

    name: str
    sources: str
    kinds: tuple[Kind, ...]
    is_packed: bool = False
    roundings: tuple[Rounding, ...] = (Rounding.PLAIN,)
    conditions: tuple[Condition, ...] = ()
    has_target: bool = True
    has_lanes: bool = False
    extra: int = 0
    has_signs: bool = False
    has_components: bool = False


_F, _WORDS = (Kind.F32,), (Kind.S32, Kind.U32)
_NUMBERS = (Kind.F32, *_WORDS)
_WHOLE = (*_WORDS, Kind.S16, Kind.U16, Kind.S8, Kind.U8)
_ALL = tuple(Kind)
_BINARY = (Condition.GT, Condition.LT, Condition.GE, Condition.LE, Condition.EQ, Condition.NE)
_UNARY = (
    Condition.ZERO, Condition.NOT_ZERO, Condition.GEZ, Condition.GZ, Condition.LEZ, Condition.LZ
)  # fmt: skip
_ANY_ROUNDING = (Rounding.PLAIN, Rounding.NEAREST)
_OF_MEMORY = 1 << 10
"""Bit 42, which accesses to memory and comparisons have."""

_OPERATIONS: Mapping[int, _Operation] = {
    0x01: _Operation(
        "add", "02", (*_NUMBERS, Kind.S16, Kind.U16, Kind.U8), is_packed=True, has_signs=True
    ),
    0x02: _Operation("mad", "012", _F, roundings=_ANY_ROUNDING, has_signs=True),
    0x03: _Operation("mul", "01", _F, has_signs=True),
    0x06: _Operation("dp4", "01", _F, has_signs=True),
    0x09: _Operation(
        "mov", "2", _ALL, is_packed=True, roundings=(*_ANY_ROUNDING, Rounding.TOWARD_ZERO),
        has_components=True,
    ),
    0x0C: _Operation("rcp", "2", _F),
    0x0D: _Operation("rsq", "2", _F),
    0x0F: _Operation(
        "sel", "012", _ALL, True, conditions=(*_BINARY, *_UNARY, Condition.TOP_BIT),
        extra=_OF_MEMORY,
    ),
    0x11: _Operation("exp", "2", _F),
    0x12: _Operation("log", "2", _F, roundings=(Rounding.TOWARD_ZERO,)),
    0x16: _Operation(
        "br", "", _NUMBERS, conditions=(Condition.ALWAYS, *_BINARY, *_UNARY), has_target=False
    ),
    0x21: _Operation("sqrt", "2", _F),
    0x25: _Operation("floor", "2", _F),
    0x26: _Operation("ceil", "2", _F),
    0x27: _Operation("sign", "2", (Kind.F32, Kind.S32)),
    0x2A: _Operation("barrier", "", _F, True, has_target=False),
    0x2B: _Operation(
        "swizzle", "012", (Kind.S16, Kind.U16, Kind.S8, Kind.U8), has_components=True
    ),
    0x2C: _Operation("i2i", "01", _WHOLE, has_components=True),
    0x2D: _Operation("i2f", "0", _WORDS, roundings=_ANY_ROUNDING),
    0x2E: _Operation("f2i", "0", _WORDS, roundings=(Rounding.PLAIN, Rounding.TOWARD_ZERO)),
    0x2F: _Operation("f2irnd", "0", _WHOLE, roundings=(Rounding.NEAREST,), has_components=True),
    0x31: _Operation("cmp", "012", _ALL, True, conditions=_BINARY, extra=_OF_MEMORY),
    0x32: _Operation("load", "01", _NUMBERS, extra=_OF_MEMORY),
    0x33: _Operation("store", "012", _NUMBERS, has_target=False, extra=_OF_MEMORY),
    0x34: _Operation("img_load_3d", "012", _ALL, True, has_lanes=True, extra=_OF_MEMORY),
    0x35: _Operation(
        "img_store_3d", "012", _ALL, True, has_target=False, has_lanes=True, extra=_OF_MEMORY
    ),
    0x36: _Operation("clamp0max", "01", _WORDS, extra=_OF_MEMORY),
    0x3C: _Operation("imullo", "01", _WORDS),
    0x40: _Operation("imulhi", "01", (Kind.U32,)),
    0x44: _Operation("idiv", "01", (Kind.S16, Kind.U16, *_WORDS), has_components=True),
    0x48: _Operation("imod", "01", (Kind.S16, Kind.U16, *_WORDS), has_components=True),
    0x4C: _Operation("imadlo", "012", _WORDS),
    0x57: _Operation("iabs", "2", (Kind.S32,)),
    0x59: _Operation("shl", "02", _WORDS),
    0x5A: _Operation("shr", "02", _WHOLE, is_packed=True),
    0x5C: _Operation("or", "02", _WHOLE, is_packed=True),
    0x5D: _Operation("and", "02", _WHOLE, is_packed=True),
    0x5E: _Operation("xor", "02", _WHOLE, is_packed=True),
    0x5F: _Operation("not", "2", _WORDS),
    0x64: _Operation("div", "12", _F, roundings=(Rounding.TOWARD_ZERO,)),
    0x72: _Operation("conv", "01", (Kind.F16, Kind.F32), True, roundings=_ANY_ROUNDING),
    0x79: _Operation("img_load", "012", _ALL, True, has_lanes=True, extra=_OF_MEMORY),
    0x7A: _Operation(
        "img_store", "012", _ALL, True, has_target=False, has_lanes=True, extra=_OF_MEMORY
    ),
}  # fmt: skip

LANE_OPERATIONS: Mapping[int, tuple[str, int]] = {
    8: ("dp16x1", 3),
    9: ("dp8x2", 3),
    10: ("dp4x4", 3),
    11: ("dp2x8", 3),
    12: ("clamp", 3),
    16: ("bit_extract", 3),
    18: ("dp32x1", 3),
    19: ("dp16x2", 3),
    21: ("dp4x8", 3),
    24: ("vert_min3", 3),
    25: ("vert_max3", 3),
    27: ("horz_min3", 1),
    28: ("horz_max3", 1),
}
"""Operations on lanes, by their number, and how many sources each has."""

SUMS_OF_32 = {"dp32x1": 1, "dp16x2": 2, "dp4x8": 8}
"""Those that sum 32 products, of lanes of 8 bits, and how many sums each has."""

_ZERO = Source(Group.IMMEDIATE, 0)
_WHOLE_TYPES = [Source(Group.IMMEDIATE, LANE_KINDS.index(kind) << 4) for kind in _WHOLE]
"""What `i2i` has for the type that it takes."""

_FLOAT_TYPES = {
    Kind.F16: Source(Group.IMMEDIATE, LANE_KINDS.index(Kind.F32)),
    Kind.F32: Source(Group.IMMEDIATE, LANE_KINDS.index(Kind.F16)),
}
"""What `conv` has for the type that it takes, by the one that it makes."""

_ASKS = 1 << 5
"""A bit of the second word: whether a value is within limits, not what it is within them."""

_WHOLE_LANES = (Kind.S16, Kind.U16, Kind.S8, Kind.U8)

_NO_CONDITION = (Condition.ALWAYS, Condition.LE)
"""What stands there of an operation that asks nothing; the second was seen where others follow."""

_FOLLOWS = 1 << 6
"""A bit of the second word that some instructions have to which branches lead."""


def decoded(program: NDArray[np.uint8]) -> tuple[Instruction, ...]:
    """A program's instructions; raises `Unknown` for what isn't declared of one."""
    count = program.size // INSTRUCTION_BYTES
    if not 0 < count <= MOST_INSTRUCTIONS or program.size % INSTRUCTION_BYTES:
        raise Unknown(f"a program of {program.size} bytes")
    words = np.frombuffer(program.tobytes(), "<u4").reshape(count, 4)
    found = []
    for number, row in enumerate(words.tolist()):
        try:
            found.append(_decoded(row, count))
        except Unknown as reason:
            raise Unknown(f"instruction {number}: {reason}") from None
    return tuple(found)


def _decoded(words: list[int], count: int) -> Instruction:
    first, second, third, fourth = words
    opcode = first & 63 | (third >> 16 & 1) << 6
    kind = Kind(third >> 30 | (second >> 21 & 1) << 2)
    if opcode == _LANES_OPCODE:
        return _on_lanes(words, kind)
    operation = _OPERATIONS.get(opcode)
    if operation is None:
        raise Unknown(f"operation {opcode:#x}")
    name = operation.name
    if kind not in operation.kinds:
        raise Unknown(f"{name!r} of {name_of(kind)}")
    lanes = DTYPES[kind].itemsize < 4 and operation.has_lanes
    _check_bits(words, operation, kind)
    sources = (
        (_source_0(words), _source_1(words), None)
        if name == "br"
        else (_source_0(words), _source_1(words), _source_2(words))
    )
    given = "".join(str(number) for number, source in enumerate(sources) if source is not None)
    is_asking = name == "mov" and given == "012"
    condition = _conditional(first, kind) if is_asking else _condition(first, operation)
    if name == "br":
        _check_branch(condition, given)
    elif (
        given != operation.sources
        and not is_asking
        and not (name == "clamp0max" and given == "012" and sources[2] == _ZERO)
    ):
        raise Unknown(f"{name!r} with the sources {given or 'none'}")
    _check_sources(operation, kind, [source for source in sources if source is not None])
    jump = fourth >> 7 if name == "br" else 0
    if jump > count:
        raise Unknown(f"a branch to instruction {jump} of {count}")
    has_target = bool(first >> 12 & 1)
    if has_target is not operation.has_target:
        raise Unknown(f"{name!r} {'with' if has_target else 'without'} a target")
    return Instruction(
        name=name,
        kind=kind,
        condition=condition,
        target=first >> 16 & 127 if has_target else None,
        mask=tuple(place for place in range(4) if not lanes and first >> 23 >> place & 1),
        sources=tuple(source for source in sources if source is not None),
        rounding=Rounding(second & 3),
        is_packed=not second >> 2 & 1,
        is_saturating=bool(first >> 11 & 1),
        shift=second >> 3 & 7 if name in ("load", "store") else 0,
        first_lane=first >> 23 & 15 if lanes else 0,
        last_lane=first >> 27 & 15 if lanes else 0,
        lane_kinds=(kind, kind),
        lane_rounding=LaneRounding.CUT,
        jump=jump,
    )


def _check_bits(words: list[int], operation: _Operation, kind: Kind) -> None:
    """Raise `Unknown` for a bit outside what an operation may have."""
    first, second, _, fourth = words
    name, size = operation.name, DTYPES[kind].itemsize
    is_memory = name in ("load", "store")
    extra = second & (0x780 | _FOLLOWS | (0 if is_memory else 0x38))
    if extra & ~_FOLLOWS not in (0, operation.extra):
        raise Unknown(f"{name!r} with the bits {extra:#x} in its second word")
    if second & 3 not in operation.roundings:
        raise Unknown(f"{name!r} with rounding {second & 3}")
    is_packed = not second >> 2 & 1
    if is_packed and not operation.is_packed:
        raise Unknown(f"{name!r} of packed values")
    is_known = is_packed or operation.has_components or operation.has_lanes
    is_known = is_known or (name == "sel" and kind is Kind.U8)
    if size < _WORD_BYTES and not is_known:
        raise Unknown(f"{name!r} of components of {name_of(kind)}")
    if first >> 13 & 7:
        raise Unknown(f"{name!r} with an addressed target")
    if first >> 27 and not (operation.has_lanes and size < 4):
        raise Unknown(f"{name!r} with the bits {first >> 27:#x} of a texture")
    is_store = name.startswith("img_store")
    if first >> 11 & 1 and not is_store:
        raise Unknown(f"{name!r} that saturates")
    if fourth >> 31 or (name != "br" and (fourth >> 13 & 1 or fourth >> 24 & 1)):
        raise Unknown(f"{name!r} of half a thread")


def _check_sources(operation: _Operation, kind: Kind, sources: list[Source]) -> None:
    """Raise `Unknown` for what an operation can't take."""
    name = operation.name
    for source in sources:
        if source.group is Group.TABLE:
            raise Unknown(f"{name!r} of a table")
        if source.group is Group.PAIR:
            raise Unknown(f"{name!r} of a pair of registers")
        if source.is_negated and not operation.has_signs:
            raise Unknown(f"{name!r} of a negated source")
    if name == "conv" and sources[1] != _FLOAT_TYPES[kind]:
        raise Unknown(f"'conv' to {name_of(kind)} from a type that isn't known")
    if name == "i2i" and sources[1] not in _WHOLE_TYPES:
        raise Unknown("'i2i' from a type that isn't known")


def _condition(first: int, operation: _Operation) -> Condition:
    try:
        condition = Condition(first >> 6 & 31)
    except ValueError:
        raise Unknown(f"{operation.name!r} with condition {first >> 6 & 31}") from None
    if operation.conditions:
        if condition not in operation.conditions:
            raise Unknown(f"{operation.name!r} with condition {condition.name}")
        return condition
    if condition not in _NO_CONDITION:
        raise Unknown(f"{operation.name!r} with condition {condition.name}")
    return Condition.ALWAYS


def _conditional(first: int, kind: Kind) -> Condition:
    """What a move asks that is only made where it is true."""
    asked = first >> 6 & 31
    if kind not in _WORDS or asked not in (*_BINARY, *_UNARY):
        raise Unknown(f"'mov' of {name_of(kind)} with condition {asked}")
    return Condition(asked)


def _check_branch(condition: Condition, given: str) -> None:
    expected = "" if condition is Condition.ALWAYS else "0" if condition in _UNARY else "01"
    if given != expected:
        raise Unknown(f"a branch that asks {condition.name} of the sources {given or 'none'}")


def _on_lanes(words: list[int], kind: Kind) -> Instruction:
    first, second, _, fourth = words
    number = (second & 1) << 4 | first >> 31 << 3 | first >> 13 & 7
    if number not in LANE_OPERATIONS:
        raise Unknown(f"operation {number} on lanes")
    name, count = LANE_OPERATIONS[number]
    is_product = name.startswith("dp")
    if not first >> 12 & 1:
        raise Unknown(f"{name!r} without a target")
    if first >> 6 & 31 not in _NO_CONDITION or second & 2 or second >> 10 & 1:
        raise Unknown(f"{name!r} with bits that have no known meaning")
    own = LANE_KINDS.index(kind) << 2 if name == "clamp" else 0
    if name == "clamp" and second & _ASKS:
        name, own = "is_within", second & 0x1C | _ASKS
        if kind is not Kind.S16 or LANE_KINDS[second >> 2 & 7] not in _WHOLE_LANES:
            raise Unknown(f"{name!r} of {name_of(kind)}")
    if not is_product and (second & 0x7FC != own or first >> 11 & 1):
        raise Unknown(f"{name!r} with bits that have no known meaning")
    if fourth >> 13 & 1 or fourth >> 24 & 1 or fourth >> 31:
        raise Unknown(f"{name!r} of half a thread")
    rounding, second_kind = second >> 8 & 3, second >> 5 & 7
    if name in SUMS_OF_32:
        rounding, second_kind = second >> 5 & 3, second >> 7 & 7
    if rounding > LaneRounding.NEAREST:
        raise Unknown(f"{name!r} with rounding {rounding}")
    given = _lane_sources(words, name, count)
    return Instruction(
        name=name,
        kind=kind,
        condition=Condition.ALWAYS,
        target=first >> 16 & 127,
        mask=(),
        sources=given,
        rounding=Rounding.PLAIN,
        is_packed=True,
        is_saturating=bool(first >> 11 & 1),
        shift=0,
        first_lane=first >> 23 & 15,
        last_lane=first >> 27 & 15,
        lane_kinds=(LANE_KINDS[second >> 2 & 7], LANE_KINDS[second_kind]),
        lane_rounding=LaneRounding(rounding),
        jump=0,
    )


def _lane_sources(words: list[int], name: str, count: int) -> tuple[Source, ...]:
    is_product = name.startswith("dp")
    sources = _source_0(words, has_swizzle=False), _source_1(words), _source_2(words)
    given = tuple(source for source in sources if source is not None)
    if len(given) != count:
        raise Unknown(f"{name!r} with {len(given)} sources")
    if any(source.is_negated for source in given):
        raise Unknown(f"{name!r} of a negated source")
    if any(source.group is Group.TABLE for source in given[: len(given) - is_product]):
        raise Unknown(f"{name!r} of a table")
    if any(source.group is Group.PAIR for source in given[is_product:]):
        raise Unknown(f"{name!r} of a pair of registers")
    if is_product is not (given[-1].group is Group.TABLE):
        raise Unknown(f"{name!r} with no table where one belongs")
    return given


def _source_0(words: list[int], has_swizzle: bool = True) -> Source | None:
    _, second, third, _ = words
    if not second >> 11 & 1:
        _check_absent(second & 0xFFDFF000 | third & 0x3F)
        return None
    swizzle = second >> 22 & 255
    if not has_swizzle and swizzle:
        raise Unknown("lanes from another component on")
    return _source(
        second >> 12 & 511, swizzle if has_swizzle else _IN_ORDER, second >> 30 & 3,
        third & 7, third >> 3 & 7,
    )  # fmt: skip


def _source_1(words: list[int]) -> Source | None:
    _, _, third, fourth = words
    if not third >> 6 & 1:
        _check_absent(third & 0x3FFEFF80 | fourth & 7)
        return None
    return _source(
        third >> 7 & 511, third >> 17 & 255, third >> 25 & 3, third >> 27 & 7, fourth & 7
    )


def _source_2(words: list[int]) -> Source | None:
    fourth = words[3]
    if not fourth >> 3 & 1:
        _check_absent(fourth & 0x7EFFDFF0)
        return None
    return _source(
        fourth >> 4 & 511, fourth >> 14 & 255, fourth >> 22 & 3, fourth >> 25 & 7, fourth >> 28 & 7
    )


def _check_absent(bits: int) -> None:
    if bits:
        raise Unknown(f"bits {bits:#x} of a source that isn't there")


_IN_ORDER = 0xE4


def _source(number: int, swizzle: int, signs: int, mode: int, group: int) -> Source:
    """A source of its fields; `signs` are the bits of a negation and a magnitude."""
    if group == Group.IMMEDIATE:
        value = number | swizzle << 9 | signs << 17 | (mode & 1) << 19
        return _immediate(value, mode >> 1)
    if mode:
        raise Unknown(f"a source that register a.{'xyzw'[mode - 1 & 3]} addresses")
    try:
        place = Group(group)
    except ValueError:
        raise Unknown(f"a source of group {group}") from None
    if signs >> 1:
        raise Unknown("a source's magnitude")
    taken = (swizzle & 3, swizzle >> 2 & 3, swizzle >> 4 & 3, swizzle >> 6 & 3)
    return Source(place, number, taken, bool(signs & 1))


_FLOAT, _SIGNED, _UNSIGNED, _HALF = range(4)
_IMMEDIATE_BITS = 20


def _immediate(value: int, form: int) -> Source:
    if form == _FLOAT:
        value <<= 32 - _IMMEDIATE_BITS
    elif form == _SIGNED and value >> (_IMMEDIATE_BITS - 1):
        value |= 0xFFFFFFFF << _IMMEDIATE_BITS & 0xFFFFFFFF
    elif form == _HALF:
        value = (value & 0xFFFF) * 0x10001
    return Source(Group.IMMEDIATE, value)
