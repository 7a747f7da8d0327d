"""rknn_init and rknn_destroy."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.formats.rknn import write_soft

from ... import models
from ...capi import SUCC, attribute, init, opened, query


def test_init_takes_bytes(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        assert 0 < context < 2**32


def test_init_takes_a_path(npu: RknnLibrary, tmp_path: Path) -> None:
    file = tmp_path / "modèle.onnx"
    file.write_bytes(models.add_one())
    context = abi.Handle()
    assert npu.rknn_init(ctypes.byref(context), str(file).encode(), 0, 0, None) == SUCC
    assert npu.rknn_destroy(context.value) == SUCC


def test_init_takes_a_soft_rknn_file(npu: RknnLibrary) -> None:
    data = write_soft(
        models.add_one(), target="rk3588", toolkit="tests", inputs=[("x", (1,))], outputs=[]
    )
    with opened(npu, data) as context:
        assert attribute(npu, context, abi.Query.INPUT_ATTR).name == b"x"


def test_the_model_may_be_freed_after_init(npu: RknnLibrary) -> None:
    model = ctypes.create_string_buffer(models.add_one())
    context = abi.Handle()
    assert npu.rknn_init(ctypes.byref(context), model, len(model) - 1, 0, None) == SUCC
    ctypes.memset(model, 0, len(model))
    assert attribute(npu, context.value, abi.Query.INPUT_ATTR).n_elems == 60
    assert npu.rknn_destroy(context.value) == SUCC


def test_a_destroyed_context_is_invalid_for_every_call(npu: RknnLibrary) -> None:
    _, context = init(npu, models.add_one())
    assert npu.rknn_destroy(context) == SUCC
    assert npu.rknn_destroy(context) == Code.CTX_INVALID
    assert query(npu, context, abi.Query.IN_OUT_NUM, abi.InputOutputNum()) == Code.CTX_INVALID
    assert npu.rknn_run(context, None) == Code.CTX_INVALID
    assert npu.rknn_inputs_set(context, 1, abi.Input()) == Code.CTX_INVALID
    assert npu.rknn_outputs_get(context, 1, abi.Output(), None) == Code.CTX_INVALID
    assert npu.rknn_set_core_mask(context, 0) == Code.CTX_INVALID


@pytest.mark.parametrize("handle", [0, 0xDEADBEEF, 2**40 + 1, 2**64 - 1])
def test_a_foreign_handle_is_invalid(npu: RknnLibrary, handle: int) -> None:
    with opened(npu, models.add_one()):
        assert npu.rknn_run(handle, None) == Code.CTX_INVALID


def test_a_handle_is_not_used_again(npu: RknnLibrary) -> None:
    handles = []
    for _ in range(5):
        with opened(npu, models.add_one()) as context:
            handles.append(context)
    assert len(set(handles)) == 5


def test_contexts_are_independent(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as first:
        with opened(npu, models.two_inputs()) as second:
            assert attribute(npu, second, abi.Query.INPUT_ATTR, 1).name == b"b"
        assert attribute(npu, first, abi.Query.INPUT_ATTR).name == b"x"


def test_null_pointers(npu: RknnLibrary) -> None:
    model = models.add_one()
    assert npu.rknn_init(None, model, len(model), 0, None) == Code.CTX_INVALID
    context = abi.Handle(5)
    assert npu.rknn_init(ctypes.byref(context), None, 10, 0, None) == Code.MODEL_INVALID
    assert context.value == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"not a model at all",
        b"RKNN",
        b"RKNN" + bytes(60),
        b"RKNN" + bytes(100),
        models.add_one()[:-7],
        models.add_one()[:40],
    ],
    ids=["zero", "text", "magic", "header", "empty", "cut", "short"],
)
def test_what_is_no_model(npu: RknnLibrary, data: bytes) -> None:
    code, context = init(npu, data)
    assert (code, context) == (Code.MODEL_INVALID, 0)


def test_a_missing_file(
    npu: RknnLibrary, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = abi.Handle()
    path = str(tmp_path / "none.rknn").encode()
    assert npu.rknn_init(ctypes.byref(context), path, 0, 0, None) == Code.MODEL_INVALID
    assert "none.rknn" in capfd.readouterr().err


def test_a_folder_is_no_model(npu: RknnLibrary, tmp_path: Path) -> None:
    context = abi.Handle()
    path = str(tmp_path).encode()
    assert npu.rknn_init(ctypes.byref(context), path, 0, 0, None) == Code.MODEL_INVALID


def test_shapes_must_be_fixed(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    assert init(npu, models.add_one(("batch", 3)))[0] == Code.MODEL_INVALID
    assert "[batch, 3]" in capfd.readouterr().err


def test_shapes_in_the_metadata_fix_the_model(npu: RknnLibrary) -> None:
    model = models.add_one(("n", 3), {"anynpu.shapes": '[{"x": [2, 3]}]'})
    with opened(npu, model) as context:
        for command in (abi.Query.INPUT_ATTR, abi.Query.OUTPUT_ATTR):
            assert list(attribute(npu, context, command).dims[:2]) == [2, 3]


@pytest.mark.parametrize(
    "metadata",
    [
        {"anynpu.mean": "not json"},
        {"anynpu.mean": "[1]"},
        {"anynpu.mean": '{"x": ["a"]}'},
        {"anynpu.mean": '{"x": [1, 2]}'},
        {"anynpu.mean": '{"other": [1, 2, 3]}'},
        {"anynpu.std": '{"x": [1, 0, 1]}'},
        {"anynpu.std": '{"x": [1, 1, Infinity]}'},
        {"anynpu.mean": '{"x": [1, 2, 3]}', "anynpu.std": '{"x": [1, 2]}'},
        {"anynpu.shapes": "{}"},
        {"anynpu.shapes": "[]"},
        {"anynpu.shapes": '[{"x": [1, 3, 4, -5]}]'},
        {"anynpu.shapes": '[{"x": [1, 3, 4, 6]}]'},
        {"anynpu.shapes": '[{"z": [1, 3, 4, 5]}]'},
        {"anynpu.shapes": "[" * 100000},
    ],
    ids=str,
)
def test_malformed_metadata(npu: RknnLibrary, metadata: dict[str, str]) -> None:
    assert init(npu, models.add_one(metadata=metadata))[0] == Code.MODEL_INVALID


def test_a_model_for_another_chip(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.add_one(metadata={"anynpu.soc": "rk3566"})
    monkeypatch.setenv("ANYNPU_SOC", "RK3588S")
    assert init(npu, model)[0] == Code.TARGET_PLATFORM_UNMATCH
    monkeypatch.setenv("ANYNPU_SOC", "rk3566")
    with opened(npu, model):
        pass
    monkeypatch.setenv("ANYNPU_SOC", "rk9999")
    assert init(npu, model)[0] == Code.TARGET_PLATFORM_UNMATCH


@pytest.mark.parametrize(
    ("built_for", "here"),
    [("rk3566", "rk3568"), ("rk3568", "rk3566"), ("rv1106", "rv1103"), ("rv1103", "rv1106")],
)
def test_a_model_for_a_chip_of_the_same_npu(
    npu: RknnLibrary,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    built_for: str,
    here: str,
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", here)
    monkeypatch.setenv("RKNN_LOG_LEVEL", "3")
    with opened(npu, models.add_one(metadata={"anynpu.soc": built_for})):
        assert f"target platform: {here}" in capfd.readouterr().err


def test_the_log_says_what_runs(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = models.add_one(metadata={"anynpu.soc": "rk3576"})
    with opened(npu, model):
        assert capfd.readouterr().err == ""
    monkeypatch.setenv("RKNN_LOG_LEVEL", "2")
    with opened(npu, model):
        lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("I RKNN: [") for line in lines)
    assert "librknnrt version: 2.3.2" in lines[0]
    assert "target: RKNPU f2, target platform: rk3576, framework name: ONNX" in lines[2]
