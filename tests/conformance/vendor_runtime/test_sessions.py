"""`InferenceSession` on the vendor's library: every way to run, every type of input, no error line.

What is expected is what the C calls give for pixels, in a context that nothing else used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .board import BoardPython, Outcome
from .python_programs import sessions

Board = Callable[..., BoardPython]
Sample = Callable[[str], Path]

pytestmark = pytest.mark.conformance

PICTURE = "rk3588/conv3x3_rgb_i8_ms"
"""An int8 model of pictures with mean and standard deviation, which the NPU applies itself."""


def check_all(outcome: Outcome, ways: set[str] | None = None) -> None:
    """Every value equals the expected one, and the library complained of nothing."""
    assert outcome.error == ""
    found = {name: value for name, value in outcome.values.items() if name != "expected"}
    assert ways is None or set(found) == ways
    for name, value in found.items():
        expected = np.broadcast_to(outcome.values["expected"], value.shape)
        np.testing.assert_array_equal(value, expected, err_msg=name)
    assert outcome.complaints == []


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize(
    "sample", [PICTURE, "rk3588/conv3x3_i8", "rk3588/concat_i8", "rk3588/conv3x3_fp16"]
)
def test_no_options(board_python: Board, compiled_sample: Sample, sample: str, dtype: str) -> None:
    """Images are NCHW, which this library refuses with a line of its log and the code 0."""
    check_all(board_python().call(sessions.in_every_way, compiled_sample(sample), dtype, {}))


@pytest.mark.parametrize(
    "dtypes",
    [
        ["uint8", "float32", "uint8", "float16", "int32"],
        ["float32", "uint8", "int8", "float32", "bool", "int64"],
    ],
)
@pytest.mark.parametrize("options", [{}, {"schedule": [0]}, {"disable_dup_context": True}])
def test_types_may_change(
    board_python: Board, compiled_sample: Sample, dtypes: list[str], options: dict[str, Any]
) -> None:
    """A context that had a picture as bytes keeps that picture when float32 comes: code 0."""
    sample = compiled_sample(PICTURE)
    check_all(board_python().call(sessions.of_mixed_types, sample, dtypes, options))


@pytest.mark.parametrize("sample", ["rk3588/matmul_fp16", "rk3588/conv3x3_i8", "rk3588/op_gemm_i8"])
def test_types_of_other_inputs_may_change(
    board_python: Board, compiled_sample: Sample, sample: str
) -> None:
    dtypes = ["uint8", "float32", "int8", "int16", "bool", "uint32", "uint8"]
    outcome = board_python().call(sessions.of_mixed_types, compiled_sample(sample), dtypes, {})
    if sample != "rk3588/op_gemm_i8":  # where the plain calls let values wrap round
        check_all(outcome)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16", "float16"])
@pytest.mark.parametrize("sample", ["rk3588/op_gemm_i8", "rk3588/matmul_i8"])
def test_values_beyond_the_range_saturate(
    board_python: Board, compiled_sample: Sample, sample: str, dtype: str
) -> None:
    """The library lets those of inputs that are no images wrap round."""
    outcome = board_python().call(sessions.beyond_the_range, compiled_sample(sample), dtype)
    assert outcome.error == ""
    assert np.any(outcome.values["given"] != outcome.values["limited"])
    for name in ("run", "submit"):
        np.testing.assert_array_equal(outcome.values[name], outcome.values["expected"])
    assert outcome.complaints == []


def test_rknnlite(board_python: Board, compiled_sample: Sample) -> None:
    dtypes = ["uint8", "float32", "int16", "uint8"]
    outcome = board_python().call(sessions.by_rknnlite, compiled_sample(PICTURE), dtypes)
    check_all(outcome, {"run"})
