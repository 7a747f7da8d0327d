"""Models with CPU operators that a board's runtime lacks."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu.rknn import custom_op
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.rknn import board_refusals

from ...capi import SUCC, infer, init, opened, set_input

FOLDER = Path(__file__).parents[2] / "data" / "compiled" / "runtime"


def model(name: str) -> bytes:
    with np.load(FOLDER / f"{name}.npz") as archive:
        return lzma.decompress(archive["compiled"].tobytes())


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")


@pytest.fixture
def unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that hasn't spoken of any operator."""
    monkeypatch.setattr(board_refusals, "_noticed", set())


def test_a_notice_names_the_runtime_once(
    unnoticed: None, npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    data = model("rk3588_gather_nd_float16")
    for _ in range(2):
        with opened(npu, data):
            pass
    shown = capfd.readouterr().err
    assert shown.count("librknnrt 2.3.2 doesn't compute the CPU operator GatherND") == 1
    assert "E RKNN" not in shown


def test_it_is_computed_all_the_same(npu: RknnLibrary) -> None:
    given = np.arange(120, dtype=np.float32).reshape(4, 6, 5)
    with opened(npu, model("rk3588_gather_nd_float16")) as context:
        found = infer(npu, context, given, np.empty((3, 5), np.float32))
    np.testing.assert_array_equal(found, given[[0, 3, 2], [1, 5, 2]])


def test_strict_fails_to_run_what_the_runtime_lacks(
    strict: None, npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, model("rk3588_gather_nd_float16")) as context:
        line = "Unsupport CPU op: GatherND in this librknnrt.so"
        assert line in capfd.readouterr().err
        assert set_input(npu, context, np.zeros((4, 6, 5), np.float32)) == SUCC
        assert npu.rknn_run(context, None) == Code.FAIL
        assert line in capfd.readouterr().err


def test_strict_refuses_to_load_it_where_there_are_no_custom_operators(
    strict: None, npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    assert init(npu, model("rv1106_min_int8"))[0] == Code.FAIL
    shown = capfd.readouterr().err
    assert "E RKNN: " in shown
    assert "unsupport cpu Min op, op name: Min:" in shown
    assert "rknn fallback cpu failed" in shown


class Gather:
    """GatherND of the file's constant places."""

    def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
        pass

    def compute(self, inputs: Any, outputs: Any) -> None:
        np.copyto(outputs[0], inputs[0][[0, 3, 2], [1, 5, 2]])


def test_strict_runs_it_with_an_operator_that_was_registered(
    strict: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "soft")
    file = tmp_path / "network.rknn"
    file.write_bytes(model("rk3588_gather_nd_float16"))
    given = np.arange(120, dtype=np.float32).reshape(4, 6, 5)
    with anynpu.Model(file, custom_ops=[custom_op("GatherND")(Gather)]) as network:
        network.run(given)
        np.testing.assert_array_equal(network.output_f32(0), given[[0, 3, 2], [1, 5, 2]])
