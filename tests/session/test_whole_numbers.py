"""Outputs of whole numbers keep their type, and every value is exact."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import anynpu
from anynpu import InferenceSession

from .. import models
from ..conformance.vendor_runtime.python_programs import whole_numbers

TYPES = [
    (TensorProto.INT8, np.int8),
    (TensorProto.UINT8, np.uint8),
    (TensorProto.INT16, np.int16),
    (TensorProto.INT32, np.int32),
    (TensorProto.INT64, np.int64),
    (TensorProto.BOOL, np.bool_),
]


@pytest.mark.parametrize(("kind", "dtype"), TYPES)
@pytest.mark.parametrize("options", [{}, {"output_dtype": "model"}, {"output_layout": "native"}])
def test_an_output_keeps_its_type(kind: int, dtype: type, options: dict[str, str]) -> None:
    with InferenceSession(models.passes(kind), provider_options=options) as session:
        (node,) = session.get_inputs()
        values: np.ndarray = np.arange(np.prod(node.shape)).reshape(node.shape).astype(dtype)
        (out,) = session.get_outputs()
        assert out.dtype.numpy == dtype
        for (result,) in (session.run(None, [values]), *session.map([[values]])):
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, values)


def test_numbers_that_float32_has_not() -> None:
    large = 2**40 + 1
    with InferenceSession(models.passes(TensorProto.INT64)) as session:
        (node,) = session.get_inputs()
        (result,) = session.run(None, [np.full(node.shape, large)])
    assert (result == large).all()


@pytest.mark.parametrize("name", ["argmax", "gather", "truth", "add_int32"])
def test_compiled_files(name: str) -> None:
    found = whole_numbers.run(name)
    expected = whole_numbers.expected(name)
    for way in ("run", "submit"):
        np.testing.assert_array_equal(found[way], expected)
        assert found[way].dtype == expected.dtype


def test_a_loop_over_a_state() -> None:
    """The outputs go back as inputs, as a streaming recogniser's do."""
    with InferenceSession(whole_numbers.file("stream")) as session:
        state: dict[str, np.ndarray] = {
            "cache": np.zeros((1, 6, 7, 19), np.float32),
            "len": np.array([2**24 + 1]),
        }
        for step in range(1, 4):
            x = np.full((1, 3, 4, 19), step, np.float32)
            _, cache, length = session.run(["y", "new_cache", "new_len"], {"x": x, **state})
            assert length.dtype == np.int64
            assert length.tolist() == [2**24 + 1 + 4 * step]
            state = {"cache": cache, "len": length}


def test_whole_numbers_of_a_model() -> None:
    with anynpu.Model(whole_numbers.file("argmax")) as model:
        model.run(*whole_numbers.feed("argmax").values())
        assert model.output_raw(0).dtype == np.int64
        np.testing.assert_array_equal(model.output_raw(0), whole_numbers.expected("argmax"))
