"""Bodies of the REST form: JSON, and binary tensors after it (the binary data extension).

The header ``Inference-Header-Content-Length`` says how long the JSON is; after it lie the tensors
that have ``binary_data_size`` among their parameters, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ..errors import TensorError
from . import tensors

JSON_LENGTH = "inference-header-content-length"
_MOST_DIGITS = 18
Elsewhere = Callable[[Mapping[str, Any]], NDArray[Any] | None]
"""A tensor's array where it isn't in the body, else None."""


def split_body(body: bytes, json_length: str | None) -> tuple[dict[str, Any], memoryview]:
    """A body's JSON object, and the bytes after it: a view.

    `json_length` is the header's value. `TensorError` for what isn't a JSON object, or not as long.
    """
    view = memoryview(body)
    if json_length is None:
        length = len(view)
    else:
        digits = json_length.strip()
        length = int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else -1
        if not 0 <= length <= len(view):
            raise TensorError(
                f"the header {JSON_LENGTH} is {json_length[:60]!r}; it takes the length of the "
                f"JSON, at most the body's {len(view)}"
            )
    try:
        # UTF-8 alone: `json` would guess others.
        found = json.loads(str(view[:length], "utf-8"))
    except UnicodeDecodeError:
        raise TensorError("the body isn't UTF-8") from None
    except RecursionError:
        raise TensorError("the body's JSON has too many lists within lists") from None
    except ValueError as error:
        raise TensorError(f"the body isn't JSON: {error}") from None
    if not isinstance(found, dict):
        raise TensorError(f"the body takes a JSON object; found a {type(found).__name__}")
    return found, view[length:]


def objects(holder: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of objects under a key, empty where there is none; `TensorError` for others."""
    found = holder.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise TensorError(f"{key!r} takes a list of objects")
    return found


def parameters(holder: Mapping[str, Any]) -> dict[str, Any]:
    """The object under ``parameters``, empty where there is none."""
    found = holder.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise TensorError("'parameters' takes an object")
    return found


def name_of(tensor: Mapping[str, Any]) -> str:
    """A tensor's name; `TensorError` without one."""
    name = tensor.get("name")
    if not isinstance(name, str):
        raise TensorError("a tensor has no name: give each a 'name'")
    return name


class BinaryTensors:
    """The bytes after the JSON, taken tensor by tensor; `end` holds that all were."""

    def __init__(self, data: memoryview) -> None:
        self._left = data

    def take(self, name: str, size: object) -> memoryview:
        """The next tensor's bytes: a view."""
        if not tensors.is_count(size) or size > len(self._left):
            raise TensorError(
                f"tensor {name!r} has the binary_data_size {str(size)[:60]}; {len(self._left)} "
                f"bytes are left of the body"
            )
        found, self._left = self._left[:size], self._left[size:]
        return found

    def end(self) -> None:
        """`TensorError` where bytes are left that belong to no tensor."""
        if len(self._left):
            raise TensorError(f"{len(self._left)} bytes of the body belong to no tensor")


def read_tensor(tensor: Mapping[str, Any], binary: BinaryTensors) -> NDArray[Any]:
    """The array of a tensor whose elements are in the body: JSON, or binary, which is a view."""
    name = name_of(tensor)
    size = parameters(tensor).get("binary_data_size")
    datatype, shape = tensor.get("datatype"), tensor.get("shape")
    if size is None:
        if "data" not in tensor:
            raise TensorError(f"tensor {name!r} has no 'data' and no binary_data_size")
        return tensors.from_json(name, datatype, shape, tensor["data"])
    if "data" in tensor:
        raise TensorError(f"tensor {name!r} has data and binary_data_size; give one")
    tensors.stored_dtype_of(datatype, name)
    sizes = tensors.shape_of(shape, name)
    return tensors.from_bytes(name, str(datatype), sizes, binary.take(name, size))


def _nowhere_else(tensor: Mapping[str, Any]) -> NDArray[Any] | None:
    return None


def read_tensors(
    described: Iterable[Mapping[str, Any]], data: memoryview, elsewhere: Elsewhere = _nowhere_else
) -> dict[str, NDArray[Any]]:
    """The arrays of a body's tensors by their names; `elsewhere` has those that lie beside it."""
    binary, found = BinaryTensors(data), dict[str, NDArray[Any]]()
    for tensor in described:
        if (name := name_of(tensor)) in found:
            raise TensorError(f"tensor {name!r} is there twice")
        array = elsewhere(tensor)
        found[name] = read_tensor(tensor, binary) if array is None else array
    binary.end()
    return found


def describe(name: str, array: NDArray[Any], *, is_binary: bool) -> dict[str, Any]:
    """A tensor as JSON: with its elements, or with how many bytes it has after the JSON."""
    found = {
        "name": name,
        "datatype": tensors.datatype_of(array.dtype),
        "shape": list(array.shape),
    }
    if is_binary:
        return {**found, "parameters": {"binary_data_size": array.nbytes}}
    return {**found, "data": tensors.to_json(array)}


def join_body(content: Mapping[str, Any], binary: Sequence[bytes]) -> tuple[bytes, int]:
    """A body of JSON and the binary tensors, and how long the JSON is."""
    text = json.dumps(content, separators=(",", ":")).encode()
    return b"".join([text, *binary]), len(text)
