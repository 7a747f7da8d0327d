"""Softmax for RV1106 that the toolkit has compiled wrongly is said."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.compiled.program import CompiledProgram

from .test_networks import archive_of

FOLDER = Path(__file__).parents[3] / "data" / "compiled"


def program_of(name: str) -> CompiledProgram:
    file = FOLDER / "softmax" / f"{name}.rv1106.rknn.xz"
    return CompiledProgram(lzma.decompress(file.read_bytes()))


def test_nothing_is_said_of_one_row_in_parts() -> None:
    data, _, _ = archive_of(FOLDER / "rv1106_softmax_parts_int8.npz")
    assert CompiledProgram(data).mistakes(0) == ()


def test_parts_that_are_added_to_the_first_row_s_sum() -> None:
    (said,) = program_of("rows_8_wide").mistakes(0)
    assert said.startswith("node 'exSoftmax13:/Softmax' adds parts of rows to the sum of the first")


def test_divisors_that_nobody_has_packed() -> None:
    (said,) = program_of("rows_7").mistakes(0)
    assert said.startswith("node 'exSoftmax13:/Softmax' divides by what isn't a sum: so the toolk")


def test_a_refusal_says_what_the_toolkit_has_done() -> None:
    with pytest.raises(ModelError, match=r"never written; .*divides by what isn't a sum"):
        program_of("rows_2")
