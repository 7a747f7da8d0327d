"""What the toolkit has compiled wrongly is said when a file is loaded, and where it is refused."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.compiled.program import CompiledProgram

from .test_networks import archive_of

FOLDER = Path(__file__).parents[3] / "data" / "compiled"


def program_of(name: str) -> CompiledProgram:
    file = FOLDER / "mistakes" / f"{name}.rknn.xz"
    return CompiledProgram(lzma.decompress(file.read_bytes()))


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        (
            "softmax_rows_8_wide.rv1106",
            "node 'exSoftmax13:/Softmax' adds parts of rows to the sum of the first row",
        ),
        ("softmax_rows_7.rv1106", "node 'exSoftmax13:/Softmax' divides by what isn't a sum"),
        ("relu_minus.rk3588", "node 'Mul:/Neg#1_MulRelu' has its ReLU before a negative factor"),
        ("gru_20.rk3566", "node 'exGRU:/r/GRU' adds biases of other units from its second gate"),
    ],
)
def test_it_is_said(name: str, beginning: str) -> None:
    (said,) = program_of(name).mistakes(0)
    assert said.startswith(beginning)


@pytest.mark.parametrize(
    "name", ["rv1106_softmax_parts_int8", "rv1106_lstm_softmax_int8", "rk3566_gru_float16"]
)
def test_nothing_is_said_of_what_is_right(name: str) -> None:
    data, *_ = archive_of(FOLDER / f"{name}.npz")
    assert CompiledProgram(data).mistakes(0) == ()


def test_a_refusal_says_it_too() -> None:
    with pytest.raises(ModelError, match=r"never written; .*divides by what isn't a sum"):
        program_of("refused/softmax_rows_2.rv1106")
