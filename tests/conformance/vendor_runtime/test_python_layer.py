"""The Python layer on the vendor's library, beside the same program on the soft NPU.

Tasks are computed by our engine on both sides, so that what both give has to be the same bytes
wherever the CPU's part is known to be; where it isn't, the reason stands with the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .board import BoardPython, Outcome
from .python_programs import compat, layouts, models, products, shapes
from .vendor import VERSION

pytestmark = pytest.mark.conformance

Board = Callable[..., BoardPython]
Sample = Callable[[str], Path]

BLOCKS = "rk3588/conv3x3_i8"
_STEP = 1e-6
"""The vendor's library dequantises by another formula: a relative difference of float32."""


def same(outcome: Outcome, expected: Mapping[str, Any], *, but_for_steps: bool = False) -> None:
    """The board's values are ours, and the library complained of nothing."""
    assert outcome.error == ""
    assert set(outcome.values) == set(expected)
    for name, value in expected.items():
        found = outcome.values[name]
        if isinstance(value, np.ndarray):
            if but_for_steps and value.dtype == np.float32:
                np.testing.assert_allclose(found, value, rtol=_STEP, atol=_STEP, err_msg=name)
            else:
                np.testing.assert_array_equal(found, value, err_msg=name)
        else:
            assert str(found) == str(value), name
    assert outcome.complaints == []


@pytest.mark.parametrize(
    "sample", [BLOCKS, "rk3588/conv3x3_fp16", "rk3588/concat_i8", "rk3588/matmul_fp16"]
)
def test_what_a_model_tells(board_python: Board, compiled_sample: Sample, sample: str) -> None:
    file = compiled_sample(sample)
    same(board_python().call(models.describe, file), models.describe(str(file)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(
    "sample", [BLOCKS, "rk3588/concat_i8", "rk3588/op_split3_i8", "rk3588/smallcnn_fp16"]
)
def test_a_model_computes_the_same(
    board_python: Board, compiled_sample: Sample, sample: str, dtype: str
) -> None:
    file = compiled_sample(sample)
    outcome = board_python().call(models.run, file, dtype)
    same(outcome, models.run(str(file), dtype), but_for_steps=True)


def test_duplicates(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample(BLOCKS)
    expected = models.run_duplicates(str(file))
    same(board_python().call(models.run_duplicates, file), expected, but_for_steps=True)


def test_images_with_planes(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv3x3_rgb_fp16")
    expected = models.run_planar(str(file))
    same(board_python().call(models.run_planar, file), expected, but_for_steps=True)


def test_memory_from_elsewhere(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample(BLOCKS)
    expected = models.in_memory_from_elsewhere(str(file))
    same(board_python().call(models.in_memory_from_elsewhere, file), expected)


def test_memory_of_the_program(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample(BLOCKS)
    expected = models.with_memory_of_its_own(str(file))
    outcome = board_python().call(models.with_memory_of_its_own, file)
    same(outcome, expected, but_for_steps=True)


def test_another_chips_model_is_refused(board_python: Board, compiled_sample: Sample) -> None:
    """Before the library sees it, whose reason is in its log alone."""
    outcome = board_python().call(models.refused, compiled_sample("rk3566/conv3x3_i8"))
    assert outcome.status == 1
    assert "conv3x3_i8.rknn is compiled for rk3566, this board has rk3588" in outcome.error
    assert outcome.complaints == []


@pytest.mark.parametrize(("b", "ac"), [("NORM", "NORM"), ("NATIVE", "NORM"), ("NATIVE", "NATIVE")])
def test_products_of_bytes(board_python: Board, b: str, ac: str) -> None:
    outcome = board_python().call(products.of_bytes, b, ac)
    assert (outcome.error, outcome.complaints) == ("", [])
    np.testing.assert_array_equal(outcome.values["found"], outcome.values["expected"])


def test_products_of_halves(board_python: Board) -> None:
    outcome = board_python().call(products.of_halves)
    assert (outcome.error, outcome.complaints) == ("", [])
    np.testing.assert_array_equal(outcome.values["found"], outcome.values["expected"])


def test_a_product_in_one_call(board_python: Board) -> None:
    outcome = board_python().call(products.in_one_call, 96)
    assert (outcome.error, outcome.complaints) == ("", [])
    np.testing.assert_array_equal(outcome.values["found"], outcome.values["expected"])


def test_a_product_that_this_version_refuses(board_python: Board) -> None:
    """1.5.2 takes no more than 4,096 columns of bytes: the exception has the library's own line."""
    outcome = board_python().call(products.in_one_call, 8192)
    assert "rknn_matmul_create" in outcome.error
    assert any("K must be less than or equal 4096" in line for line in outcome.log)


def test_shapes_of_a_session(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv3x3_fp16_dyn")
    expected = shapes.by_session(str(file))
    same(board_python().call(shapes.by_session, file), expected, but_for_steps=True)


@pytest.mark.parametrize("sample", [BLOCKS, "rk3588/conv3x3_fp16", "rk3588/op_split3_i8"])
def test_layouts_of_a_session(board_python: Board, compiled_sample: Sample, sample: str) -> None:
    file = compiled_sample(sample)
    outcome = board_python().call(layouts.run, file)
    same(outcome, layouts.run(str(file)), but_for_steps=True)


def test_a_script_of_rknnlite(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample(BLOCKS)
    outcome = board_python().call(compat.rknnlite, file)
    assert (outcome.error, outcome.complaints) == ("", [])
    assert VERSION in outcome.text("version")
    assert outcome.values["codes"].tolist() == [0, 0]
    expected = compat.rknnlite(str(file))["output"]
    np.testing.assert_allclose(outcome.values["output"], expected, rtol=_STEP, atol=_STEP)


def test_a_script_of_ez_rknn_async(board_python: Board, compiled_sample: Sample) -> None:
    file = compiled_sample(BLOCKS)
    expected = compat.ez_rknn_async(str(file))
    same(board_python().call(compat.ez_rknn_async, file), expected, but_for_steps=True)
