"""PERF_RUN and PERF_DETAIL, on both clocks."""

from __future__ import annotations

import ctypes

import numpy as np
import onnx
import pytest

from anynpu.perf import parse_perf_detail
from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import Query
from anynpu.rknn.library import RknnLibrary
from anynpu.soc import find
from anynpu.soft.clock import call_microseconds, estimate
from anynpu.soft.engines.onnx.layers import lower

from ... import models
from ...capi import SUCC, infer, opened, query

VALUES = np.zeros((1, 3, 16, 16), np.float32)
LIKE = np.empty((1, 4, 16, 16), np.float32)


def perf_detail(npu: RknnLibrary, context: int) -> str:
    info = abi.PerfDetail()
    assert query(npu, context, Query.PERF_DETAIL, info) == SUCC
    text = ctypes.string_at(info.perf_data, info.data_len)
    assert ctypes.string_at(info.perf_data) == text  # ends with a zero byte too
    return text.decode()


def test_the_table_of_layers(npu: RknnLibrary) -> None:
    with opened(npu, models.deep(), abi.InitFlag.COLLECT_PERF_MASK) as context:
        infer(npu, context, VALUES, LIKE)
        text = perf_detail(npu, context)
    lines = text.splitlines()
    assert lines[0] == lines[2] == "-" * 222
    assert "Network Layer Information Table" in lines[1]
    assert lines[3].split() == [
        "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape",
        "Cycles(DDR/NPU/Total)", "Time(us)", "MacUsage(%)", "WorkLoad(0/1/2)", "RW(KB)", "FullName",
    ]  # fmt: skip
    table = parse_perf_detail(text)
    assert [row.number for row in table] == list(range(1, len(table) + 1))
    assert [table.rows[0].op_type, table.rows[-1].op_type] == ["InputOperator", "OutputOperator"]
    assert table.rows[0].input_shapes == "\\"
    assert table.rows[0].output_shape == "(1,3,16,16)"
    assert {row.target for row in table.rows[1:-1]} == {"NPU"}
    assert sum("Conv" in row.op_type for row in table) == 3
    assert f"Total Operator Elapsed Per Frame Time(us): {table.microseconds}" in text
    assert "Total Memory Read/Write Per Frame Size(KB): " in text
    assert "Operator Time Consuming Ranking Table" in text
    ranking = text[text.index("Operator Time Consuming") :].splitlines()
    assert ranking[2].split() == [
        "OpType", "CallNumber", "CPUTime(us)", "GPUTime(us)", "NPUTime(us)", "TotalTime(us)",
        "TimeRatio(%)",
    ]  # fmt: skip
    assert ranking[-2].startswith("Total ")
    assert str(table.microseconds) in ranking[-2]


def test_the_table_needs_its_flag_and_a_run(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(npu, models.deep()) as context:
        infer(npu, context, VALUES, LIKE)
        assert perf_detail(npu, context) == ""
    with opened(npu, models.deep(), abi.InitFlag.COLLECT_PERF_MASK) as context:
        assert perf_detail(npu, context) == "", "there was no run"
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
        assert query(npu, context, Query.PERF_DETAIL, abi.PerfDetail()) == Code.FAIL


def test_both_say_whose_clock_they_are(npu: RknnLibrary) -> None:
    with opened(npu, models.deep(), abi.InitFlag.COLLECT_PERF_MASK) as context:
        infer(npu, context, VALUES, LIKE)
        assert "on this machine" in parse_perf_detail(perf_detail(npu, context)).title
        info = abi.SdkVersion()
        assert query(npu, context, Query.SDK_VERSION, info) == SUCC
        assert b"host clock" in info.api_version


def test_the_model_s_clock(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is as long as the estimate of its call, and the table has the layers."""
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "model")
    for soc in ("rk3588", "rk3566"):
        model = models.deep(metadata={"anynpu.soc": soc})
        with opened(npu, model, abi.InitFlag.COLLECT_PERF_MASK) as context:
            infer(npu, context, VALUES, LIKE)
            layers = lower(onnx.load_from_string(model)).layers
            estimated = estimate(layers, find(soc))
            info = abi.PerfRun()
            assert query(npu, context, Query.PERF_RUN, info) == SUCC
            assert info.run_duration == round(call_microseconds(layers, find(soc)))
            table = parse_perf_detail(perf_detail(npu, context))
            assert "model of the chip" in table.title
            rows = table.rows[1:-1]
            assert [row.op_type for row in rows] == ["Conv"] * 3
            assert [row.microseconds for row in rows] == [
                round(layer.microseconds) for layer in estimated
            ]
            assert rows[0].input_shapes == "(1,3,16,16),(16,3,3,3)"
            version = abi.SdkVersion()
            assert query(npu, context, Query.SDK_VERSION, version) == SUCC
            assert b"model clock" in version.api_version


def test_several_cores_are_faster_by_the_model_s_clock(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "model")
    values = np.zeros((1, 3, 64, 64), np.float32)
    durations = []
    with opened(npu, models.deep(64), abi.InitFlag.COLLECT_PERF_MASK) as context:
        for mask in (abi.CoreMask.CORE_0, abi.CoreMask.CORE_0_1, abi.CoreMask.CORE_0_1_2):
            assert npu.rknn_set_core_mask(context, mask) == SUCC
            infer(npu, context, values, np.empty((1, 4, 64, 64), np.float32))
            info = abi.PerfRun()
            assert query(npu, context, Query.PERF_RUN, info) == SUCC
            durations.append(info.run_duration)
        assert "33.3%/33.3%/33.3%" in perf_detail(npu, context)
    assert durations == sorted(durations, reverse=True)
    assert durations[0] > durations[2]


def test_an_unknown_clock(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(npu, models.deep()) as context:
        monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "sundial")
        assert query(npu, context, Query.SDK_VERSION, abi.SdkVersion()) == Code.PARAM_INVALID
        monkeypatch.delenv("ANYNPU_SOFT_CLOCK")
