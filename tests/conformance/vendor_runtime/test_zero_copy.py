"""`Model` and bindings on the vendor's library: every type of input, shapes, memory, cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from .board import BoardPython, Outcome
from .python_programs import zero_copy

Board = Callable[..., BoardPython]
Sample = Callable[[str], Path]

pytestmark = pytest.mark.conformance

PICTURE = "rk3588/conv3x3_rgb_i8_ms"


def assert_same(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """The same steps of quantisation, which the library multiplies in another order than we."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=name)


def check(outcome: Outcome, *names: str) -> None:
    """The named values are the expected one, and the library complained of nothing."""
    assert outcome.error == ""
    for name in names:
        assert_same(outcome.values[name], outcome.values["expected"], name)
    assert outcome.complaints == []


@pytest.mark.parametrize("first", ["uint8", "float32"])
def test_types_may_change(board_python: Board, compiled_sample: Sample, first: str) -> None:
    dtypes = [first, "float32", "uint8", "int8", "uint8", "float16"]
    outcome = board_python().call(zero_copy.of_mixed_types, compiled_sample(PICTURE), dtypes)
    check(outcome, "run", "of a duplicate")
    np.testing.assert_array_equal(
        outcome.values["raw, by the first run's array"], outcome.values["raw"]
    )


@pytest.mark.parametrize("sample", ["rk3588/conv3x3_i8", "rk3588/matmul_fp16", "rk3588/concat_i8"])
def test_types_of_other_inputs_may_change(
    board_python: Board, compiled_sample: Sample, sample: str
) -> None:
    dtypes = ["uint8", "float32", "int16", "bool", "uint8"]
    outcome = board_python().call(zero_copy.of_mixed_types, compiled_sample(sample), dtypes)
    check(outcome, "run", "of a duplicate")


@pytest.mark.parametrize("sample", ["rk3588/conv3x3_fp16_dyn", "rk3588/conv3x3_i8_dyn"])
def test_a_dynamic_file(board_python: Board, compiled_sample: Sample, sample: str) -> None:
    """The library ends the process where memory is set before the shapes are."""
    outcome = board_python().call(zero_copy.of_every_shape, compiled_sample(sample))
    assert outcome.error == ""
    names = [name for name in outcome.values if name.startswith("model")]
    assert len(names) > 3
    for name in names:
        of_session = outcome.values[name.replace("model", "session")]
        assert_same(outcome.values[name], of_session, name)
    assert outcome.complaints == []


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16"])
@pytest.mark.parametrize("sample", ["rk3588/op_gemm_i8", "rk3588/matmul_i8"])
def test_values_beyond_the_range_saturate(
    board_python: Board, compiled_sample: Sample, sample: str, dtype: str
) -> None:
    check(board_python().call(zero_copy.beyond_the_range, compiled_sample(sample), dtype), "run")


@pytest.mark.parametrize("sample", [PICTURE, "rk3588/concat_i8"])
def test_a_binding(board_python: Board, compiled_sample: Sample, sample: str) -> None:
    """This library makes memory without flags only, and synchronises it by itself."""
    dtypes = ["uint8", "float32", "uint8", "int32"]
    check(board_python().call(zero_copy.bound, compiled_sample(sample), dtypes), "run")


def test_all_cores(board_python: Board, compiled_sample: Sample) -> None:
    """This library knows no mask for all cores."""
    outcome = board_python().call(zero_copy.on_all_cores, compiled_sample("rk3588/conv3x3_i8"))
    check(outcome, "all", "0,1,2", "0,1", "1")


@pytest.mark.parametrize("sample", ["rk3588/smallcnn_i8", "rk3588/ppocr_cls_i8"])
def test_the_table_of_layers(board_python: Board, compiled_sample: Sample, sample: str) -> None:
    outcome = board_python().call(zero_copy.layers, compiled_sample(sample))
    assert outcome.error == ""
    operators = outcome.values["operators"].tolist()
    assert (operators[0], operators[-1]) == ("InputOperator", "OutputOperator")
    total = int(outcome.text("text").split("Time(us): ")[1].split()[0])
    assert outcome.values["times"].sum() == total
