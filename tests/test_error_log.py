"""A `CallError` carries what the soft NPU logged during the call that failed, and nothing else."""

from __future__ import annotations

import ctypes
import pickle
import threading
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu.rknn import abi
from anynpu.rknn.context import Context
from anynpu.soft import call_log, faults
from anynpu.viplite.network import Network

from . import models
from .soft.viplite.client import relu


@pytest.fixture
def failing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second `rknn_run` fails."""
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run@2=FAIL")
    faults.reset()


def test_the_lines_of_a_call_that_failed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(anynpu.InvalidModelError) as caught:
        Context(b"RKNN" + bytes(100), library="soft")
    assert len(caught.value.log) == 1
    assert caught.value.log[0].startswith("E RKNN: [")
    assert caught.value.log[0] + "\n" == capfd.readouterr().err
    assert caught.value.log[0] in str(caught.value)


def test_an_error_goes_to_another_process() -> None:
    with pytest.raises(anynpu.CallError) as caught:
        anynpu.InferenceSession(b"nonsense", provider_options={"library": "soft"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)
    assert again.__dict__ == caught.value.__dict__


def test_through_the_shared_library(soft_folder: Path) -> None:
    with pytest.raises(anynpu.InvalidModelError) as caught:
        Context(b"RKNN" + bytes(100), library=soft_folder / "librknnrt.so")
    assert "E RKNN: [" in caught.value.log[0]


@pytest.mark.usefixtures("failing_runs")
def test_a_request_s_lines() -> None:
    with anynpu.InferenceSession(models.add_one((1, 2))) as session:
        values = np.zeros((1, 2), np.float32)
        session.run(None, [values])
        with pytest.raises(anynpu.CallError) as caught:
            session.run(None, [values])
    assert caught.value.call == "rknn_run"
    assert len(caught.value.log) == 1
    assert "rknn_run" in caught.value.log[0]


def test_each_thread_s_own_lines() -> None:
    """Threads fail in the same call at the same time, for reasons of their own."""
    found: dict[int, tuple[str, ...]] = {}

    def fail(number: int) -> None:
        for _ in range(20):
            try:
                Context(b"RKNN" + bytes(60 + number), library="soft")
            except anynpu.InvalidModelError as error:
                found[number] = error.log

    threads = [threading.Thread(target=fail, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(len(lines) == 1 for lines in found.values())


def test_a_warning_that_nobody_wants_to_read(capfd: pytest.CaptureFixture[str]) -> None:
    """Some failures are logged as warnings, which are hidden by default."""
    with Context(models.add_one((1, 2)), library="soft") as context:
        info = abi.InputRange()
        command = abi.Query.INPUT_DYNAMIC_RANGE
        library = context.library
        code = library.rknn_query(context.handle, command, ctypes.byref(info), ctypes.sizeof(info))
        error = library.error_for(f"rknn_query({command.symbol})", code)
        assert error.log[0].startswith("W RKNN: [")
    assert capfd.readouterr().err == ""


def test_nothing_of_an_earlier_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_log, "_recent", deque())  # others try calls twice
    with pytest.raises(anynpu.InvalidModelError):
        Context(b"RKNN" + bytes(100), library="soft")
    with Context(models.add_one((1, 2)), library="soft") as context:
        error = context.library.error_for("rknn_init", -6)
        assert error.log == ()
        assert "standard error stream" in str(error)


def test_viplite(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(anynpu.CallError) as caught:
        Network(relu()[:200], library="soft")
    assert caught.value.log
    assert caught.value.log[0] in capfd.readouterr().err
