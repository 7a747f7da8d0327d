"""The soft variant of the `.rknn` file, which carries an ONNX file.

Its frame is that of a compiled file (`anynpu.rknn.model_file`). In a file of the vendor's toolkit
the body is a FlatBuffer with the identifier ``RKNN``; in a soft file it is::

    0   u32      0
    4   4 bytes  "ANPU", where the FlatBuffer's identifier would be
    8   u64      length of the ONNX file
    16  ...      the ONNX file

A board's runtime refuses a soft file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import ModelError
from ....rknn.model_file import HEADER, MAGIC, read_frame, write_frame

SOFT_IDENTIFIER = b"ANPU"
ENCRYPTED_MAGIC = b"CYPTRKNN"
_SOFT_BODY = struct.Struct("<I4sQ")


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


def is_compiled(data: bytes) -> bool:
    """Whether the first 72 bytes or more are those of a compiled `.rknn` file, or of a part of one.

    An encrypted file counts as compiled.
    """
    if data[: len(ENCRYPTED_MAGIC)] == ENCRYPTED_MAGIC:
        return True
    identifier = data[HEADER.size + 4 : HEADER.size + 8]
    return is_rknn(data) and identifier != SOFT_IDENTIFIER


def read(data: bytes) -> Container:
    """Parse a file's frame; raises `ModelError` with the offset of what is wrong."""
    frame = read_frame(data)
    onnx = _onnx_inside(data[frame.body_offset : frame.body_offset + frame.body_size])
    return Container(frame.version, frame.target, frame.toolkit, onnx)


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
    return write_frame(body, _write_summary(target, toolkit, inputs, outputs))


def _onnx_inside(body: bytes) -> bytes | None:
    if len(body) < _SOFT_BODY.size:
        return None
    _, identifier, size = _SOFT_BODY.unpack_from(body)
    if identifier != SOFT_IDENTIFIER:
        return None
    if size != len(body) - _SOFT_BODY.size:
        raise ModelError(
            f"damaged soft .rknn file: offset {HEADER.size + 8} announces an ONNX file of {size} "
            f"bytes, the body holds {len(body) - _SOFT_BODY.size}"
        )
    return body[_SOFT_BODY.size :]


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
