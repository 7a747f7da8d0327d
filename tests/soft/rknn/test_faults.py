"""Faults on demand."""

from __future__ import annotations

import numpy as np
import pytest

import anynpu
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.library import RknnLibrary
from anynpu.soft import faults

from ... import models
from ...capi import SUCC, init, opened, set_input

VALUES = np.zeros((1, 3, 4, 5), np.float32)


@pytest.fixture(autouse=True)
def _count_anew() -> None:
    faults.reset()


def test_the_nth_call_fails(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run@2=TIMEOUT, rknn_run@4+=FAIL")
    with opened(npu, models.add_one()) as context:
        assert set_input(npu, context, VALUES) == SUCC
        codes = [npu.rknn_run(context, None) for _ in range(6)]
    assert codes == [SUCC, Code.TIMEOUT, SUCC, Code.FAIL, Code.FAIL, Code.FAIL]


def test_every_call_fails(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(npu, models.add_one()) as context:
        monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_create_mem=MALLOC_FAIL")
        with opened(npu, models.add_one()):
            assert not npu.rknn_create_mem(context, 100)
            assert npu.rknn_create_mem2(context, 100, 0)
        monkeypatch.delenv("ANYNPU_SOFT_FAULTS")
        with opened(npu, models.add_one()):
            assert npu.rknn_create_mem(context, 100)


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_init@2=DEVICE_UNAVAILABLE")
    with anynpu.Model(models.add_one((1, 2))):
        pass
    with pytest.raises(anynpu.DeviceError, match="RKNN_ERR_DEVICE_UNAVAILABLE"):
        anynpu.Model(models.add_one((1, 2)))
    with anynpu.Model(models.add_one((1, 2))):
        pass


def test_a_session_s_error_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run@2=TIMEOUT")
    with anynpu.InferenceSession(models.add_one()) as session:
        session.run(None, VALUES)
        with pytest.raises(TimeoutError):
            session.run(None, VALUES)
        session.run(None, VALUES)


@pytest.mark.parametrize(
    "setting", ["rknn_run", "rknn_fly=FAIL", "rknn_run=BROKEN", "rknn_run@x=FAIL", "=", "a=b=c"]
)
def test_settings_that_are_not_understood(
    npu: RknnLibrary,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    setting: str,
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", setting)
    assert init(npu, models.add_one())[0] == Code.PARAM_INVALID
    assert "expected FUNCTION[@NUMBER[+]]=CODE" in capfd.readouterr().err
