"""A device without a GIL for sessions: the null device of the benchmarks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anynpu import InferenceSession
from benchmarks import null

Open = Callable[..., InferenceSession]


@pytest.fixture(scope="session")
def null_device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The null device as a librknnrt.so: what comes in is what comes out."""
    return null.build("librknnrt.so", tmp_path_factory.mktemp("null"))


@pytest.fixture(scope="session")
def null_vip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a libNBGlinker.so."""
    return null.build("libNBGlinker.so", tmp_path_factory.mktemp("null_vip"))


class NullDevice:
    """The device's own functions."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def peak(self) -> int:
        """The most cores that were busy at once since the last call."""
        return int(self._library.null_device_peak())

    @contextmanager
    def holding(self) -> Iterator[None]:
        """No run ends inside the block."""
        self._library.null_device_hold(1)
        try:
            yield
        finally:
            self._library.null_device_hold(0)


@pytest.fixture
def device(null_device: Path) -> NullDevice:
    """The null device, to be held."""
    return NullDevice(null_device)


@pytest.fixture
def on_cores(null_device: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """A function that opens a session on cores whose runs take a given number of milliseconds."""
    sessions = []

    def open_session(*milliseconds: float, **options: Any) -> InferenceSession:
        times = ",".join(str(round(each * 1000)) for each in milliseconds)
        monkeypatch.setenv("NULL_DEVICE_CORES", times)
        monkeypatch.setenv("NULL_DEVICE_INPUT", "1,1,1,1")
        monkeypatch.setenv("NULL_DEVICE_OUTPUT", "1,1,1,1")
        session = InferenceSession(
            null.RKNN_MODEL, provider_options={"library": null_device, "layout": "nhwc", **options}
        )
        sessions.append(session)
        return session

    yield open_session
    for session in sessions:
        session.close()
