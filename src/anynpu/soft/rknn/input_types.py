"""Which types of the caller's numbers the runtime reads, and into which it converts them."""

from __future__ import annotations

from ...rknn.abi import TensorType
from ...tensor import DType
from ..engines import Port

_READABLE = frozenset(
    {DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.BOOL}
)
"""The types whose size the runtime knows."""

_REAL = frozenset({DType.FLOAT32, DType.FLOAT16, DType.UINT8})
_QUANTIZED = _REAL | {DType.INT8}
_CONVERTED = {
    DType.FLOAT16: _REAL,
    DType.BOOL: _REAL | {DType.INT8},
    DType.INT32: _REAL | {DType.INT32, DType.INT64},
    DType.INT64: _REAL | {DType.INT32, DType.INT64},
}
"""For the type of an input the types that the runtime makes it from."""


def named(number: int) -> DType | None:
    """The type of an `rknn_tensor_type`; None for a number without one."""
    return DType.__members__.get(TensorType(number).name) if number in set(TensorType) else None


def is_readable(dtype: DType | None, port: Port) -> bool:
    """Whether the runtime can tell how many bytes numbers of a type take."""
    return dtype in _READABLE or dtype is port.dtype


def is_converted(dtype: DType, port: Port) -> bool:
    """Whether the runtime makes an input of a type, as real numbers or, of int8, as they are."""
    if port.dtype is DType.INT8 and port.quantization is not None:
        return dtype in _QUANTIZED
    return dtype in _CONVERTED.get(port.dtype, _REAL | {port.dtype})
