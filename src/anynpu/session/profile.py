"""How long the stages of requests take: waiting, each C call, the callback."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..native.pump import RequestRecord

WAIT, CALLBACK, TOTAL = "wait", "callback", "total"
_PERCENTILES = (50, 90, 99)
_LABELS = {
    "rknn_set_input_shapes": "set shapes",
    "rknn_set_io_mem": "bind memory",
    "anynpu_arrange": "arrange input",
    "rknn_inputs_set": "set input",
    "rknn_run": "run",
    "rknn_outputs_get": "get output",
    "rknn_outputs_release": "release",
    "anynpu_send": "set input",
    "vip_run_network": "run",
    "anynpu_receive": "get output",
}


@dataclass(frozen=True)
class Stage:
    """One stage's times in microseconds, over `count` requests."""

    name: str
    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    maximum: float


class Profile:
    """The requests of a session that ended while it was active. Any thread may read it.

    `print(profile)` shows the table of `stages`. ``wait`` is the time in the queue, ``total`` from
    the submission to the last C call's end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[str, list[float]] = {}

    def add(self, record: RequestRecord, steps: Sequence[str]) -> None:
        """Take a finished request's times."""
        with self._lock:
            self._append(WAIT, record.started - record.submitted)
            begin = record.started
            for name, end in zip(steps, record.ends, strict=False):
                self._append(_LABELS.get(name, name), end - begin)
                begin = end
            self._append(TOTAL, begin - record.submitted)

    def add_callback(self, seconds: float) -> None:
        """Take a callback's time."""
        with self._lock:
            self._append(CALLBACK, seconds * 1e9)

    def _append(self, name: str, nanoseconds: float) -> None:
        self._times.setdefault(name, []).append(nanoseconds / 1e3)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in their order."""
        with self._lock:
            times = {name: np.array(values) for name, values in self._times.items()}
        return tuple(_stage(name, values) for name, values in times.items())

    def __str__(self) -> str:
        rows = [
            f"{'stage':12} {'count':>7} {'mean':>9} {'p50':>9} {'p90':>9} {'p99':>9} {'max':>9}"
        ]
        rows += [
            f"{s.name:12} {s.count:7} {s.mean:9.1f} {s.p50:9.1f} {s.p90:9.1f} {s.p99:9.1f} "
            f"{s.maximum:9.1f}"
            for s in self.stages
        ]
        return "\n".join([*rows, "(microseconds)"])


def _stage(name: str, values: np.ndarray) -> Stage:
    p50, p90, p99 = np.percentile(values, _PERCENTILES)
    return Stage(
        name, len(values), float(values.mean()), float(p50), float(p90), float(p99),
        float(values.max()),
    )  # fmt: skip
