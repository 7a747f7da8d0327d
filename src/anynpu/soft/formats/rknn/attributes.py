"""A node's attributes: ONNX's own as a BSON document, the compiler's as one of its typed tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....errors import ModelError
from .flatbuffer import TableReader

_EMPTY_DOCUMENT = 5  # bytes
_LONGEST_DOCUMENT = 1 << 20

Read = Callable[[TableReader, int], Any]


def read_document(data: memoryview, offset: int) -> Mapping[str, Any]:
    """The ONNX attributes of a node by name.

    A document has ``{name: {"dtype": ..., "value": ...}}``; the values are returned. Some nodes
    (outputs, recurrent ones) keep other things in that place, which is told by the length that a
    document begins with. `offset` is where in the file the node is. Raises `ModelError` for a
    document that isn't BSON.
    """
    if len(data) <= _EMPTY_DOCUMENT or int.from_bytes(data[:4], "little") != len(data):
        return {}
    try:
        import bson
        import bson.errors
    except ImportError as error:
        raise ModelError(
            f"a node's attributes need pymongo: pip install 'anynpu[formats]' ({error})"
        ) from error

    if len(data) > _LONGEST_DOCUMENT:
        raise ModelError(f"damaged .rknn file: offset {offset}: {len(data)} bytes of attributes")
    try:
        document = bson.decode(bytes(data))
    except (bson.errors.BSONError, ValueError, RecursionError, OverflowError) as error:
        raise ModelError(
            f"damaged .rknn file: offset {offset}: a node's attributes are not BSON: {error}"
        ) from None
    return {
        name: entry["value"] if isinstance(entry, dict) and "value" in entry else entry
        for name, entry in document.items()
    }


def read_options(union: int, table: TableReader | None) -> Mapping[str, Any]:
    """The compiler's own attributes by ONNX's names; those that we know, without defaults."""
    if table is None:
        return {}
    fields = _OPTIONS.get(union, {})
    return {name: read(table, slot) for slot, (name, read) in fields.items() if table.has(slot)}


def has_options(union: int, table: TableReader | None) -> bool:
    """Whether a node has attributes of the compiler's own that we know; others are defaults."""
    return table is not None and union in _OPTIONS


def _integers(table: TableReader, slot: int) -> tuple[int, ...]:
    return table.integers(slot)


def _integer(table: TableReader, slot: int) -> int:
    return table.i32(slot)


def _number(table: TableReader, slot: int) -> float:
    return table.f32(slot)


def _text(table: TableReader, slot: int) -> str:
    return table.text(slot)


_CONV: dict[int, tuple[str, Read]] = {
    0: ("auto_pad", _text),
    1: ("dilations", _integers),
    2: ("group", _integer),
    3: ("kernel_shape", _integers),
    4: ("pads", _integers),
    5: ("strides", _integers),
}

# The union's number, then the table's slot.
_OPTIONS: dict[int, dict[int, tuple[str, Read]]] = {
    1: _CONV,
    2: {
        0: ("auto_pad", _text),
        1: ("dilations", _integers),
        2: ("group", _integer),
        3: ("kernel_shape", _integers),
        6: ("pads", _integers),
        7: ("strides", _integers),
    },
    3: {
        2: ("dilations", _integers),
        3: ("kernel_shape", _integers),
        4: ("pads", _integers),
        6: ("strides", _integers),
    },
    5: {
        2: ("count_include_pad", _integer),
        3: ("kernel_shape", _integers),
        4: ("pads", _integers),
        5: ("strides", _integers),
    },
    9: {0: ("alpha", _number)},
    19: {0: ("axis", _integer)},
    20: {0: ("axis", _integer), 1: ("split", _integers)},
    25: {0: ("perm", _integers)},
    26: {
        0: ("coordinate_transformation_mode", _text),
        4: ("mode", _text),
        5: ("nearest_mode", _text),
    },
    30: {0: ("mode", _text)},
    31: {
        0: ("alpha", _number),
        1: ("beta", _number),
        2: ("bias", _number),
        3: ("size", _integer),
    },
    32: {0: ("blocksize", _integer), 1: ("mode", _text)},
    33: {0: ("blocksize", _integer)},
    50: {0: ("axis", _integer)},
    51: {0: ("axis", _integer)},
    52: {0: ("axis", _integer)},
    53: {},
    54: {},
    61: {0: ("axis", _integer)},
    64: {0: ("axis", _integer)},
    83: {0: ("fmod", _integer)},
    89: {0: ("axis", _integer)},
    98: {5: ("direction", _text), 6: ("hidden_size", _integer), 11: ("sequence_length", _integer)},
}
