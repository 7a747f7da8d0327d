"""What a soft model's ONNX file was told: its metadata, read without the `onnx` package.

Only the way to a ModelProto's `metadata_props` is followed; what is between is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

_METADATA_PROPS = 14
_VARINT, _BYTES_8, _LENGTH, _BYTES_4 = 0, 1, 2, 5
"""How ProtoBuf's fields are encoded."""


def read_metadata(data: bytes) -> dict[str, str]:
    """The pairs of texts in an ONNX file's bytes; ValueError or LookupError for other bytes."""
    entries = {}
    for field, value in _fields(data, 0, len(data)):
        if field == _METADATA_PROPS:
            entry = dict(_fields(data, *value))
            key, text = (data[slice(*entry[number])].decode() for number in (1, 2))
            entries[key] = text
    return entries


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """A message's fields that have a length: (number, where the value lies)."""
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _LENGTH:
            length, position = _varint(data, position)
            yield tag >> 3, (position, position + length)
            position += length
        elif kind == _VARINT:
            _, position = _varint(data, position)
        elif kind in (_BYTES_4, _BYTES_8):
            position += 4 if kind == _BYTES_4 else 8
        else:
            raise ValueError("not ONNX")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("not ONNX")
