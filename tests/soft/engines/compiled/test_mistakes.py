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
        ("clip_low.rv1106", "node 'Clip:y' has other limits than its Clip"),
        ("conv_clip_up.rv1106", "node 'Conv:c' has other limits than its Clip"),
        ("thresholded.rk3588", "node 'ThresholdedRelu:y' cuts what is greater than its threshold"),
        ("max_channels.rk3566", "node 'Max:y' reads its constant as another type"),
        ("where_channels.rk3588", "node 'Where:y' reads its constant as another type"),
        ("where_number.rk3588", "node 'Where:y' writes its constant as it is"),
        (
            "reducemax.rk3576",
            "node 'ReduceMax:y' leaves its values in the quantisation of its input",
        ),
        ("maxpool_13.rk3588", "node 'MaxPool:y' has a kernel that is larger than its picture"),
        ("rows_33600.rk3576", "node 'Conv:y' takes its rows to lie otherwise"),
        ("relu_17000.rk3588", "node 'Relu:y' takes its rows to lie otherwise"),
        (
            "lstm_constant.rk3588",
            "node 'exLSTM:y' begins with whole numbers in place of its constant",
        ),
        ("lstm_large.rk3588", "node 'exLSTM:y' cuts an initial cell state to 6 and less"),
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


@pytest.mark.parametrize(
    "file", sorted((FOLDER / "right").glob("*.xz")), ids=lambda file: file.stem
)
def test_nothing_is_said_of_what_is_alike_and_right(file: Path) -> None:
    assert CompiledProgram(lzma.decompress(file.read_bytes())).mistakes(0) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("softmax_rows_2.rv1106", "divides by what isn't a sum"),
        ("rows_33600.rk3566", "takes its rows to lie otherwise"),
    ],
)
def test_a_refusal_says_it_too(name: str, said: str) -> None:
    with pytest.raises(ModelError, match=rf"never written.*; .*{said}"):
        program_of(f"refused/{name}")
