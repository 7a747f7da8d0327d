"""The protocol's tensors: datatypes' names, bytes, typed lists and JSON, to arrays and back.

Servers and clients use these alike. Arrays made of bytes are views of them, and can't be written.
`TensorError` names the tensor and what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import TensorError
from .protocol import messages

DATATYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
        "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
        "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
    }.items()
}  # fmt: skip
"""The protocol's datatypes that a tensor may have here, and their dtypes."""

_NAMES = {dtype: name for name, dtype in DATATYPES.items()}
_NO_DTYPE = {
    "BYTES": "strings, which no network on an NPU takes",
    "BF16": "bfloat16, which is taken as bytes only: raw contents, binary data, shared memory",
}
_BFLOAT16_BITS = np.dtype("<u2")
_BITS_BELOW = 16
"""Of a float32, of which a bfloat16 is the upper half."""
_LISTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
    "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents",
    "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents",
}  # fmt: skip
_MOST_AXES = 32  # what every NumPy can have
_MOST_ELEMENTS = 2**59
"""Of at most 8 bytes each, fewer than an array's bytes can be."""


class Described(Protocol):
    """A tensor of a message: of a request's inputs, or a response's outputs."""

    name: str
    datatype: str

    @property
    def shape(self) -> Any: ...
    @property
    def contents(self) -> Any: ...
    def HasField(self, field_name: Any) -> bool: ...


# ------------------------------------------------------------------------------------ the names


def datatype_of(dtype: DTypeLike) -> str:
    """The protocol's name of a dtype, such as ``FP32``; `TensorError` where it has none."""
    found = np.dtype(dtype)
    if found not in _NAMES:
        known = ", ".join(DATATYPES)
        raise TensorError(f"the protocol has no datatype for {found}; it has {known}")
    return _NAMES[found]


def dtype_of(datatype: object, name: str) -> np.dtype[Any]:
    """The dtype of a datatype's name; `name` is the tensor's, for the `TensorError`."""
    found = DATATYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        known = f"it may be {', '.join(DATATYPES)}"
        why = _NO_DTYPE.get(datatype) if isinstance(datatype, str) else None
        raise TensorError(
            f"tensor {name!r} has the datatype {_short(datatype)}" + (f" ({why})" if why else "")
            + f"; {known}"
        )  # fmt: skip
    return found


def stored_dtype_of(datatype: object, name: str) -> np.dtype[Any]:
    """The dtype of a tensor's elements as bytes: for BF16 that of their bits, else `dtype_of`."""
    return _BFLOAT16_BITS if datatype == "BF16" else dtype_of(datatype, name)


def shape_of(shape: object, name: str) -> tuple[int, ...]:
    """A shape of whole numbers from 0 on; `TensorError` for others."""
    sizes = tuple(shape) if isinstance(shape, Iterable) and not isinstance(shape, str) else None
    if sizes is None or len(sizes) > _MOST_AXES or not all(map(is_count, sizes)):
        raise TensorError(
            f"tensor {name!r} has the shape {_short(shape)}; it takes a list of at most "
            f"{_MOST_AXES} whole numbers, none below 0"
        )
    if 0 in sizes and math.prod(size or 1 for size in sizes) >= _MOST_ELEMENTS:
        # NumPy counts the other sizes where one is 0, too.
        raise TensorError(
            f"tensor {name!r} has the shape {_short(list(sizes))}: no array is so large"
        )
    return sizes


def is_count(value: object) -> TypeGuard[int]:
    """Whether something from a request is a whole number from 0 on; JSON's true isn't one."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


# ------------------------------------------------------------------------------------ the bytes


def size_in_bytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    """How many bytes a tensor takes."""
    return dtype.itemsize * math.prod(shape)


def from_bytes(name: str, datatype: str, shape: Iterable[int], data: Any) -> NDArray[Any]:
    """The array that bytes are, in row-major order: a view of them, which can't be written.

    BF16 becomes float32, which has all of its values: a copy.

    `TensorError` where there are more or fewer bytes than the shape takes, and for a BOOL that is
    neither 0 nor 1.
    """
    dtype, sizes = stored_dtype_of(datatype, name), shape_of(shape, name)
    view = memoryview(data).toreadonly().cast("B")
    expected = size_in_bytes(dtype, sizes)
    if len(view) != expected:
        raise TensorError(
            f"tensor {name!r} is {datatype} of the shape {list(sizes)}, which takes {expected} "
            f"bytes; found {len(view)}"
        )
    if dtype.kind == "b":
        return _booleans(name, np.frombuffer(view, np.uint8)).reshape(sizes)
    elements = np.frombuffer(view, dtype).reshape(sizes)
    if datatype == "BF16":
        return (elements.astype("<u4") << _BITS_BELOW).view("<f4")
    return elements


def _booleans(name: str, data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    if data.size and data.max() > 1:
        raise TensorError(f"tensor {name!r} is BOOL, bytes of 0 or 1; found {int(data.max())}")
    return data.view(np.bool_)


def to_bytes(array: NDArray[Any]) -> bytes:
    """An array's elements in row-major order."""
    return array.tobytes()


# ------------------------------------------------------------------------------ the typed lists


def from_contents(name: str, datatype: str, shape: Iterable[int], contents: Any) -> NDArray[Any]:
    """The array that a typed list of a gRPC message is; a copy.

    `TensorError` for another list than the datatype's, another number of elements than the shape
    takes, and values that the datatype doesn't have.
    """
    dtype, sizes = dtype_of(datatype, name), shape_of(shape, name)
    if datatype not in _LISTS:
        raise TensorError(f"tensor {name!r} is {datatype}, which comes as raw contents only")
    wanted = _LISTS[datatype]
    others = [field.name for field, _ in contents.ListFields() if field.name != wanted]
    if others:
        raise TensorError(
            f"tensor {name!r} is {datatype}, whose elements are in {wanted}; found {others[0]}"
        )
    values = getattr(contents, wanted)
    _check_count(name, sizes, len(values))
    return _narrowed(name, np.array(values, _WIDE[wanted]), dtype).reshape(sizes)


_WIDE: dict[str, DTypeLike] = {
    "bool_contents": np.bool_, "int_contents": np.int32, "int64_contents": np.int64,
    "uint_contents": np.uint32, "uint64_contents": np.uint64, "fp32_contents": np.float32,
    "fp64_contents": np.float64,
}  # fmt: skip


def to_contents(array: NDArray[Any]) -> messages.InferTensorContents:
    """An array as a typed list; `TensorError` for FP16, which has none."""
    datatype = datatype_of(array.dtype)
    if datatype not in _LISTS:
        raise TensorError(f"{datatype} comes as raw contents only")
    contents = messages.InferTensorContents()
    getattr(contents, _LISTS[datatype]).extend(array.ravel().tolist())
    return contents


def has_list(dtype: np.dtype[Any]) -> bool:
    """Whether tensors of a dtype can be sent as a typed list."""
    return _NAMES.get(dtype) in _LISTS


def _check_count(name: str, sizes: tuple[int, ...], found: int) -> None:
    if found != math.prod(sizes):
        raise TensorError(
            f"tensor {name!r} of the shape {list(sizes)} takes {math.prod(sizes)} elements; found "
            f"{found}"
        )


def _narrowed(name: str, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values in a dtype that has them all; `TensorError` where it hasn't."""
    if values.dtype == dtype or not values.size:
        return values.astype(dtype, copy=False)
    datatype = _NAMES[dtype]
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            found = values.astype(dtype)
        if not np.array_equal(np.isinf(found), np.isinf(values)):
            raise TensorError(f"tensor {name!r} is {datatype}; found numbers too large for it")
        return found
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if int(values.min()) < low or int(values.max()) > high:
        raise TensorError(
            f"tensor {name!r} is {datatype}, {low}..{high}; found values beyond: "
            f"{int(values.min())}..{int(values.max())}"
        )
    return values.astype(dtype)


# ------------------------------------------------------------------------------------- the JSON


def from_json(name: str, datatype: object, shape: object, data: object) -> NDArray[Any]:
    """The array that a JSON list is, flat or nested, in row-major order.

    `TensorError` for another number of elements than the shape takes, and for values that the
    datatype doesn't have: fractions of an INT32, 300 of a UINT8, what isn't a number.
    """
    dtype, sizes = dtype_of(datatype, name), shape_of(shape, name)
    if not isinstance(data, list):
        raise TensorError(f"tensor {name!r} takes data as a list of numbers; found {_short(data)}")
    try:
        values = np.array(data) if data else np.zeros(0, dtype)
    except (ValueError, OverflowError, RecursionError):
        raise TensorError(f"tensor {name!r} has data that is no list of numbers, or with rows of "
                          f"unequal length") from None  # fmt: skip
    kinds = {"b": "biu", "f": "iuf"}.get(dtype.kind, "iu")
    if values.dtype.kind not in kinds and values.size:
        raise TensorError(
            f"tensor {name!r} is {datatype}; found data that isn't such numbers: "
            f"{_short(_first(data))}"
        )
    _check_count(name, sizes, values.size)
    if values.ndim > 1 and values.shape != sizes:
        raise TensorError(
            f"tensor {name!r} has the shape {list(sizes)}; found lists of {list(values.shape)}"
        )
    return _narrowed(name, values, dtype).reshape(sizes)


def _first(data: object) -> object:
    while isinstance(data, list) and data:
        data = data[0]
    return data


def to_json(array: NDArray[Any]) -> list[Any]:
    """An array's elements as a flat list; float16 and float32 as the nearest doubles."""
    found: list[Any] = array.ravel().tolist()
    return found


# ----------------------------------------------------------------------------- gRPC's messages


def read_tensors(tensors: Iterable[Described], raw: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    """The arrays of a request's inputs, or a response's outputs, by their names.

    `raw` is the message's raw contents: one for each tensor, or none where all have typed lists.
    """
    described = list(tensors)
    if raw and len(raw) != len(described):
        raise TensorError(
            f"{len(described)} tensors have {len(raw)} raw contents; there is one for each, or none"
        )
    found: dict[str, NDArray[Any]] = {}
    for place, tensor in enumerate(described):
        if tensor.name in found:
            raise TensorError(f"tensor {tensor.name!r} is there twice")
        found[tensor.name] = read_tensor(tensor, raw[place] if raw else None)
    return found


def read_tensor(tensor: Described, raw: bytes | None) -> NDArray[Any]:
    """One tensor's array, from its raw contents or, where that is None, its typed list."""
    if raw is None:
        return from_contents(tensor.name, tensor.datatype, tensor.shape, tensor.contents)
    if tensor.HasField("contents"):
        raise TensorError(f"tensor {tensor.name!r} has typed contents and raw ones; give one")
    return from_bytes(tensor.name, tensor.datatype, tensor.shape, raw)


def write_tensor(
    message: messages.ModelInferRequest | messages.ModelInferResponse,
    name: str,
    array: NDArray[Any],
) -> None:
    """Add an array with raw contents: to a request's inputs, or to a response's outputs."""
    datatype = datatype_of(array.dtype)
    if isinstance(message, messages.ModelInferRequest):
        message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        message.raw_input_contents.append(to_bytes(array))
    else:
        message.outputs.add(name=name, datatype=datatype, shape=array.shape)
        message.raw_output_contents.append(to_bytes(array))
