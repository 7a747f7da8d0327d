"""The protocol's tensors to arrays and back, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

pytest.importorskip("google.protobuf")

from anynpu import TensorError
from anynpu.serving import rest_bodies, tensors
from anynpu.serving.protocol import messages

DTYPES = st.sampled_from(list(tensors.DATATYPES.values()))
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))


def same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    is_float = one.dtype.kind == "f"
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=is_float)


@given(ARRAYS)
def test_bytes_come_back(array: NDArray[Any]) -> None:
    datatype, data = tensors.datatype_of(array.dtype), tensors.to_bytes(array)
    back = tensors.from_bytes("x", datatype, array.shape, data)
    assert same(array, back)
    assert back.shape == array.shape
    assert not back.flags.writeable
    assert not back.size or np.shares_memory(back, np.frombuffer(data, np.uint8))


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    bits = np.arange(2**16, dtype="<u2").reshape(2, -1)
    found = tensors.from_bytes("x", "BF16", bits.shape, bits.tobytes())
    assert found.dtype == np.float32
    assert np.array_equal(found.view("<u4"), bits.astype("<u4") << 16)
    assert list(tensors.from_bytes("x", "BF16", [2], b"\x80\x3f\x20\xc0")) == [1.0, -2.5]
    assert tensors.from_bytes("x", "BF16", [0, 3], b"").shape == (0, 3)


@given(ARRAYS)
def test_typed_lists_come_back(array: NDArray[Any]) -> None:
    datatype = tensors.datatype_of(array.dtype)
    if not tensors.has_list(array.dtype):
        with pytest.raises(TensorError, match="raw contents only"):
            tensors.to_contents(array)
        return
    contents = tensors.to_contents(array)
    wire = messages.InferTensorContents.FromString(contents.SerializeToString())
    assert same(array, tensors.from_contents("x", datatype, array.shape, wire))


@given(ARRAYS, st.booleans())
def test_json_comes_back(array: NDArray[Any], is_nested: bool) -> None:
    if array.dtype == np.uint64 and array.size:
        array = array & np.uint64(2**63 - 1)  # NumPy reads larger ones among others as floats
    data = array.tolist() if is_nested and array.ndim else tensors.to_json(array)
    text = json.loads(json.dumps(data))
    back = tensors.from_json("x", tensors.datatype_of(array.dtype), list(array.shape), text)
    assert same(array, back)
    assert back.shape == array.shape


@given(st.lists(ARRAYS, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_bodies_come_back(arrays: list[NDArray[Any]], binary: list[bool]) -> None:
    named = {f"x{place}": (array, binary[place]) for place, array in enumerate(arrays)}
    inputs = [rest_bodies.describe(name, a, is_binary=b) for name, (a, b) in named.items()]
    parts = [array.tobytes() for array, is_binary in named.values() if is_binary]
    body, length = rest_bodies.join_body({"inputs": inputs}, parts)
    header, data = rest_bodies.split_body(body, str(length))
    found = rest_bodies.read_tensors(rest_bodies.objects(header, "inputs"), data)
    for name, (array, _) in named.items():
        assert same(found[name], array)


@given(st.lists(ARRAYS, max_size=3))
def test_messages_come_back(arrays: list[NDArray[Any]]) -> None:
    request = messages.ModelInferRequest()
    for place, array in enumerate(arrays):
        tensors.write_tensor(request, f"x{place}", array)
    wire = messages.ModelInferRequest.FromString(request.SerializeToString())
    found = tensors.read_tensors(wire.inputs, wire.raw_input_contents)
    assert len(found) == len(arrays)
    assert all(same(found[f"x{place}"], array) for place, array in enumerate(arrays))


def contents(**lists: Any) -> Any:
    return messages.InferTensorContents(**lists)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tensors.from_bytes("x", "FP32", [2], bytes(7)), "takes 8 bytes; found 7"),
        (lambda: tensors.from_bytes("x", "FP32", [-1], b""), r"shape \[-1\]; it takes"),
        (lambda: tensors.from_bytes("x", "FP32", [2**62, 4], b""), "bytes; found 0"),
        (lambda: tensors.from_bytes("x", "FP32", [1] * 40, bytes(4)), "at most 32"),
        (lambda: tensors.from_bytes("x", "BOOL", [2], b"\x01\x02"), "0 or 1; found 2"),
        (lambda: tensors.from_bytes("x", "BYTES", [1], b""), "strings"),
        (lambda: tensors.from_bytes("x", "BF16", [1], b"1234"), "takes 2 bytes; found 4"),
        (lambda: tensors.from_json("x", "BF16", [1], [1.0]), "bfloat16, which is taken as bytes"),
        (
            lambda: tensors.from_contents("x", "BF16", [1], messages.InferTensorContents()),
            "bfloat16, which is taken as bytes",
        ),
        (lambda: tensors.from_bytes("x", "float", [1], b"1234"), "may be BOOL"),
        (lambda: tensors.datatype_of(np.complex64), "no datatype"),
        (lambda: tensors.from_contents("x", "INT8", [1], contents(int_contents=[128])), "beyond"),
        (lambda: tensors.from_contents("x", "UINT8", [1], contents(uint_contents=[256])), "beyond"),
        (lambda: tensors.from_contents("x", "UINT8", [1], contents(int_contents=[1])), "uint_cont"),
        (lambda: tensors.from_contents("x", "FP32", [2], contents(fp32_contents=[1])), "found 1"),
        (lambda: tensors.from_contents("x", "FP16", [1], contents(fp32_contents=[1])), "raw"),
        (lambda: tensors.from_json("x", "INT32", [1], [1.5]), "isn't such numbers"),
        (lambda: tensors.from_json("x", "INT32", [1], [True]), "isn't such numbers"),
        (lambda: tensors.from_json("x", "UINT8", [2], [0, 256]), "beyond: 0..256"),
        (lambda: tensors.from_json("x", "BOOL", [1], [2]), "beyond"),
        (lambda: tensors.from_json("x", "INT64", [1], [2**70]), "isn't such numbers"),
        (lambda: tensors.from_json("x", "FP32", [1], [1e39]), "too large"),
        (lambda: tensors.from_json("x", "FP16", [1], [70000]), "too large"),
        (lambda: tensors.from_json("x", "FP32", [1], ["1"]), "isn't such numbers: '1'"),
        (lambda: tensors.from_json("x", "FP32", [1], [None]), "isn't such numbers"),
        (lambda: tensors.from_json("x", "FP32", [1], [{}]), "isn't such numbers"),
        (lambda: tensors.from_json("x", "FP32", [3], [[1], [2, 3]]), "unequal length"),
        (lambda: tensors.from_json("x", "FP32", [2, 3], [[1, 2], [3, 4], [5, 6]]), "found lists"),
        (lambda: tensors.from_json("x", "FP32", [2], [1]), "takes 2 elements; found 1"),
        (lambda: tensors.from_json("x", "FP32", [True], [1]), "takes a list"),
        (lambda: tensors.from_json("x", "FP32", "1", [1]), "takes a list"),
        (lambda: tensors.from_json("x", "FP32", None, [1]), "takes a list"),
        (lambda: tensors.from_json("x", ["FP32"], [1], [1]), "datatype"),
        (lambda: tensors.from_json("x", "FP32", [1], 1), "list of numbers"),
        (lambda: rest_bodies.split_body(b"[]", None), "object; found a list"),
        (lambda: rest_bodies.split_body(b"\xff{}", None), "UTF-8"),
        (lambda: rest_bodies.split_body(b"{", None), "isn't JSON"),
        (lambda: rest_bodies.split_body(b"{}", "3"), "at most the body's 2"),
        (lambda: rest_bodies.split_body(b"{}", "-1"), "at most"),
        (lambda: rest_bodies.split_body(b"{}", "1" * 5000), "at most"),
        (lambda: rest_bodies.split_body(b"[" * 100_000, None), "lists within lists"),
        (lambda: rest_bodies.objects({"inputs": [1]}, "inputs"), "list of objects"),
        (lambda: rest_bodies.read_tensors([{}], memoryview(b"")), "no name"),
        (lambda: rest_bodies.read_tensors([], memoryview(b"1")), "belong to no tensor"),
    ],
)
def test_what_is_wrong_is_said(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TensorError, match=message):
        make()


@pytest.mark.parametrize("size", [-1, 5, True, "4", 2**80])
def test_sizes_that_do_not_add_up(size: object) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1]}
    tensor["parameters"] = {"binary_data_size": size}  # type: ignore[assignment]
    with pytest.raises(TensorError, match="4 bytes are left"):
        rest_bodies.read_tensors([tensor], memoryview(bytes(4)))


def test_raw_contents_are_for_all_or_for_none() -> None:
    request = messages.ModelInferRequest()
    tensors.write_tensor(request, "x", np.zeros(2, np.float32))
    request.inputs.add(name="y", datatype="FP32", shape=[1])
    with pytest.raises(TensorError, match="2 tensors have 1 raw"):
        tensors.read_tensors(request.inputs, request.raw_input_contents)
    request.raw_input_contents.append(bytes(4))
    assert list(tensors.read_tensors(request.inputs, request.raw_input_contents)) == ["x", "y"]
    tensors.write_tensor(request, "x", np.zeros(2, np.float32))
    with pytest.raises(TensorError, match="twice"):
        tensors.read_tensors(request.inputs, request.raw_input_contents)
