"""Write a soft `.nb` file: the header and tables of a compiled one round an ONNX file.

The file has version 1.x and a fixed part of 920 bytes. Its operations are of a type of our own, so
that no hardware takes them for commands; the ONNX file lies in the section of the table's last
pair (`nbg.SOFT_SECTION`), behind an identifier and its length.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import ModelError
from .model import OperationKind, Tensor
from .v1 import (
    CORE_COUNT_OFFSET,
    HEADER,
    MAGIC,
    MAX_DIMS,
    MEMORY,
    MEMORY_POOL_OFFSET,
    NAME_LENGTH,
    SECTIONS_OFFSET,
    SOFT_FRAME,
    SOFT_IDENTIFIER,
    SOFT_SECTION,
    TENSOR,
)
from .view import LAYER, OPERATION

VERSION = 0x10020
_FIXED_SIZE = SECTIONS_OFFSET + (SOFT_SECTION + 1) * 8
_ALIGNMENT = 64
_NOWHERE = 0xFFFFFFFF
_BEGIN = OperationKind.INITIALISATION


def write_soft(
    onnx: bytes,
    *,
    name: str,
    target: int,
    cores: int,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    layers: Sequence[str],
    memory_pool_size: int = 0,
) -> bytes:
    """A soft file for the NPU whose number is `target`; `layers` are the layers' names.

    Names are cut to what the file has room for. Raises `ModelError` for a tensor of more
    dimensions than the file can describe.
    """
    parts = {
        0: b"".join(map(_tensor, inputs)),
        1: b"".join(map(_tensor, outputs)),
        2: b"".join(
            LAYER.pack(_name(layer), number, 1, number) for number, layer in enumerate(layers)
        ),
        3: _operations(len(layers)),
        SOFT_SECTION: SOFT_FRAME.pack(SOFT_IDENTIFIER, len(onnx)) + onnx,
    }
    counts = (len(layers), len(layers) + 1, len(inputs), len(outputs))
    fixed = bytearray(_FIXED_SIZE)
    HEADER.pack_into(fixed, 0, MAGIC, VERSION, target, _name(name), *counts)
    fixed[CORE_COUNT_OFFSET : CORE_COUNT_OFFSET + 2] = cores.to_bytes(2, "little")
    MEMORY.pack_into(fixed, MEMORY_POOL_OFFSET, memory_pool_size, 0)
    body = _place(fixed, parts)
    return bytes(fixed) + body


def _place(fixed: bytearray, parts: dict[int, bytes]) -> bytes:
    """Lay the sections out behind the fixed part, and enter where each of them is."""
    body = bytearray()
    for number in range(SOFT_SECTION + 1):
        part = parts.get(number, b"")
        if number == SOFT_SECTION:
            body.extend(bytes(-(_FIXED_SIZE + len(body)) % _ALIGNMENT))
        position = SECTIONS_OFFSET + 8 * number
        entry = (_FIXED_SIZE + len(body)).to_bytes(4, "little") + len(part).to_bytes(4, "little")
        fixed[position : position + 8] = entry
        body.extend(part)
    return bytes(body)


def _tensor(tensor: Tensor) -> bytes:
    if len(tensor.dims) > MAX_DIMS:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {tensor.shape} has more than {MAX_DIMS} dimensions"
        )
    # Dimensions that a tensor hasn't are 1, as compiled files have it.
    dims = tensor.dims + (1,) * (MAX_DIMS - len(tensor.dims))
    return TENSOR.pack(
        len(tensor.dims), *dims, tensor.format, 0, tensor.quantization,
        tensor.fixed_point_pos, tensor.scale, tensor.zero_point, _name(tensor.name),
    )  # fmt: skip


def _operations(layers: int) -> bytes:
    """One operation that begins, and one for each layer."""
    begin = OPERATION.pack(_BEGIN, _BEGIN, _NOWHERE, 0, 0, 0, 0, _NOWHERE)
    return begin + b"".join(
        OPERATION.pack(OperationKind.SOFT, number, number, 0, 0, 0, 0, number)
        for number in range(layers)
    )


def _name(text: str) -> bytes:
    """A name cut to its field, which ends with a zero byte; no character is cut in two."""
    return text.encode()[: NAME_LENGTH - 1].decode(errors="ignore").encode()
