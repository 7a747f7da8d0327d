"""The `.rknn` container: its outer frame, and the soft variant that carries an ONNX file.

All integers are little endian. A file is a 64-byte header (magic ``RKNN``, container version,
body length), the body, and a length-prefixed JSON summary of the graph. In a file of the vendor's
toolkit the body is a FlatBuffer with the identifier ``RKNN``; in a soft file it is::

    0   u32      0
    4   4 bytes  "ANPU", where the FlatBuffer's identifier would be
    8   u64      length of the ONNX file
    16  ...      the ONNX file

A board's runtime refuses a soft file. The layout is known from files that the toolkit writes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ModelError

MAGIC = b"RKNN"
SOFT_IDENTIFIER = b"ANPU"
_HEADER = struct.Struct("<4sIQQ40x")
_SOFT_BODY = struct.Struct("<I4sQ")
_LENGTH = struct.Struct("<Q")
_VERSION = 6


@dataclass(frozen=True)
class Container:
    """A `.rknn` file's frame: `onnx` is the ONNX file inside a soft one, None in a compiled one.

    `target` is the chip that the JSON summary names, `toolkit` what wrote the file.
    """

    version: int
    target: str
    toolkit: str
    onnx: bytes | None


def is_rknn(data: bytes) -> bool:
    """Whether the bytes begin as a `.rknn` file does."""
    return data[: len(MAGIC)] == MAGIC


def read(data: bytes) -> Container:
    """Parse a file's frame; raises `ModelError` with the offset of what is wrong."""
    if len(data) < _HEADER.size:
        raise ModelError(
            f"a .rknn file has a {_HEADER.size}-byte header; this is {len(data)} bytes"
        )
    magic, _, version, body_size = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ModelError(f"not a .rknn file: it begins with {magic!r}, not {MAGIC!r}")
    body_end = _HEADER.size + body_size
    if body_end > len(data):
        raise ModelError(
            f"truncated .rknn file: offset 16 announces a body of {body_size} bytes, "
            f"{len(data) - _HEADER.size} are there"
        )
    onnx = _onnx_inside(data[_HEADER.size : body_end])
    summary = _summary(data, body_end)
    return Container(
        version, _first(summary.get("target_platform")), str(summary.get("version", "")), onnx
    )


def write_soft(
    onnx: bytes,
    *,
    target: str,
    toolkit: str,
    inputs: Sequence[tuple[str, Sequence[int]]],
    outputs: Sequence[tuple[str, Sequence[int]]],
) -> bytes:
    """A soft `.rknn` file round an ONNX file; `inputs` and `outputs` are (name, shape)."""
    body = _SOFT_BODY.pack(0, SOFT_IDENTIFIER, len(onnx)) + onnx
    summary = json.dumps(_write_summary(target, toolkit, inputs, outputs)).encode()
    header = _HEADER.pack(MAGIC, 0, _VERSION, len(body))
    return b"".join((header, body, _LENGTH.pack(len(summary)), summary))


def _onnx_inside(body: bytes) -> bytes | None:
    if len(body) < _SOFT_BODY.size:
        return None
    _, identifier, size = _SOFT_BODY.unpack_from(body)
    if identifier != SOFT_IDENTIFIER:
        return None
    if size != len(body) - _SOFT_BODY.size:
        raise ModelError(
            f"damaged soft .rknn file: offset {_HEADER.size + 8} announces an ONNX file of {size} "
            f"bytes, the body holds {len(body) - _SOFT_BODY.size}"
        )
    return body[_SOFT_BODY.size :]


def _summary(data: bytes, offset: int) -> dict[str, Any]:
    if offset + _LENGTH.size > len(data):
        raise ModelError(f"truncated .rknn file: no summary at offset {offset}")
    (size,) = _LENGTH.unpack_from(data, offset)
    start = offset + _LENGTH.size
    if start + size > len(data):
        raise ModelError(
            f"truncated .rknn file: offset {offset} announces a summary of {size} bytes, "
            f"{len(data) - start} are there"
        )
    try:
        summary = json.loads(data[start : start + size])
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the .rknn file's summary at offset {start} is not JSON: {error}"
        ) from None
    if not isinstance(summary, dict):
        raise ModelError(f"the .rknn file's summary at offset {start} is not a JSON object")
    return summary


def _first(value: Any) -> str:
    return str(value[0]) if isinstance(value, list) and value else "an unnamed chip"


def _write_summary(
    target: str,
    toolkit: str,
    inputs: Sequence[tuple[str, Sequence[int]]],
    outputs: Sequence[tuple[str, Sequence[int]]],
) -> dict[str, Any]:
    sides = [("input", i, name, shape) for i, (name, shape) in enumerate(inputs)]
    sides += [("output", i, name, shape) for i, (name, shape) in enumerate(outputs)]
    return {
        "connection": [
            {
                "left": side,
                "left_tensor_id": index,
                "node_id": 0,
                "right_tensor": {"tensor_id": tensor, "type": "norm_tensor"},
            }
            for tensor, (side, index, _, _) in enumerate(sides)
        ],
        "const_tensor": [],
        "graph": [
            {
                "left": side,
                "left_tensor_id": index,
                "right": "norm_tensor",
                "right_tensor_id": tensor,
            }
            for tensor, (side, index, _, _) in enumerate(sides)
        ],
        "input_num": len(inputs),
        "name": "rknn model",
        "network_platform": "ONNX",
        "node_num": 1,
        "nodes": [
            {
                "input_num": len(inputs),
                "lid": "anynpu_soft_graph",
                "name": "soft",
                "op": "ANYNPU_SOFT",
                "output_num": len(outputs),
                "uid": 0,
            }
        ],
        "norm_tensor": [
            {"dim_num": len(shape), "size": list(shape), "tensor_id": tensor, "url": name}
            for tensor, (_, _, name, shape) in enumerate(sides)
        ],
        "norm_tensor_num": len(sides),
        "ori_network_platform": "ONNX",
        "output_num": len(outputs),
        "target_platform": [target],
        "version": toolkit,
        "virtual_tensor": [],
    }
