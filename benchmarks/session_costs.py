"""What a session costs besides time: the processor's time while paced, and memory."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator

import numpy as np
import psutil

import anynpu

from .measure import Comparison
from .null_device import NullDevice, null_device

SHAPE = (1, 3, 224, 224)
SESSIONS = 20


def run(rounds: int) -> Iterator[Comparison]:
    """Pacing over none, in the processor's time; memory for a session, and for a core more."""
    with null_device() as device:
        device.shape(SHAPE)
        device.cores(10, 10, 10)
        yield _pacing(device, max(rounds, 10) * 5)
        device.cores(0, 0, 0)
        yield _memory(device)


def _pacing(device: NullDevice, requests: int) -> Comparison:
    with device.open(enable_pacing=True) as paced, device.open() as unpaced:
        pairs = [
            (_processor_ms(paced, requests // 10), _processor_ms(unpaced, requests // 10))
            for _ in range(10)
        ]
    return Comparison(
        "processor's time for a request, paced / not paced",
        statistics.median(ours for ours, _ in pairs),
        statistics.median(other for _, other in pairs),
        statistics.median(ours / other for ours, other in pairs),
        None,
    )


def _processor_ms(session: anynpu.InferenceSession, requests: int) -> float:
    values = {"x": np.ones(SHAPE, np.uint8)}
    start = time.process_time()
    for _ in session.map(values for _ in range(requests)):
        pass
    return (time.process_time() - start) * 1000 / requests


def _memory(device: NullDevice) -> Comparison:
    """Resident memory of sessions with three workers, over that of sessions with one."""
    device.open().close()
    one, three = (_resident_mb(device, schedule=list(range(cores))) for cores in (1, 3))
    name = "memory of a session that ran, 3 workers / 1"
    return Comparison(name, three, one, three / one, None, unit="MB")


def _resident_mb(device: NullDevice, **options: object) -> float:
    process = psutil.Process()
    values = {"x": np.ones(SHAPE, np.uint8)}
    gc.collect()
    before = process.memory_info().rss
    sessions = [device.open(**options) for _ in range(SESSIONS)]
    for session in sessions:
        for _ in session.map(values for _ in range(12)):
            pass
    taken: float = (process.memory_info().rss - before) / SESSIONS / 1e6
    for session in sessions:
        session.close()
    return taken
