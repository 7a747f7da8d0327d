"""The `.rknn` frame, and its soft variant."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anynpu
from anynpu.soft.formats import rknn

from ...shared import SAMPLES

SAMPLE = rknn.write_soft(
    b"onnx", target="rk3588", toolkit="t", inputs=[("x", (1, 2))], outputs=[("y", (3,))]
)


def test_what_is_written_is_read() -> None:
    assert rknn.read(SAMPLE) == rknn.Container(6, "rk3588", "t", b"onnx")


@given(length=st.integers(0, len(SAMPLE) - 1))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(anynpu.ModelError, match=r"truncated|header|not a \.rknn"):
        rknn.read(SAMPLE[:length])


@given(position=st.integers(0, len(SAMPLE) - 1), value=st.integers(0, 255))
def test_any_byte_may_be_wrong(position: int, value: int) -> None:
    data = bytearray(SAMPLE)
    data[position] = value
    with contextlib.suppress(anynpu.ModelError):
        rknn.read(bytes(data))


@pytest.mark.parametrize("chip", ["rk3566", "rk3588", "rv1106"])
def test_compiled_files_are_known_as_such(chip: str) -> None:
    folder = SAMPLES / chip
    files = sorted(folder.glob("*.rknn"))
    if not files:
        pytest.skip(f"{folder} has no files")
    for file in files:
        container = rknn.read(file.read_bytes())
        assert container.onnx is None
        assert container.target == chip
        assert container.toolkit.startswith("2.")
