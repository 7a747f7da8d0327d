"""Runs of a session, timed: each way of running, for a number of seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AnynpuError

if TYPE_CHECKING:
    from ..session import InferenceSession, Profile
    from .feeds import Feed

_PERCENTILES = (50, 90, 99)
_RUN = "run"
_PROFILED = 0.2
"""For how much of the time that is measured runs go on, to be profiled."""


@dataclass(frozen=True)
class Measured:
    """A way of running: runs and seconds, each run's latency in seconds, stages' mean microseconds.

    A latency is from handing a request in to having its outputs; where requests wait in a queue,
    with their wait. `busy` is the share of the workers' time that the device computed.
    """

    way: str
    cores: str | None
    depth: int
    workers: int
    runs: int
    seconds: float
    latencies: tuple[float, ...]
    stages: dict[str, float]

    @property
    def rate(self) -> float:
        """Runs a second."""
        return self.runs / self.seconds

    @property
    def busy(self) -> float:
        computing = self.stages.get(_RUN, 0.0) / 1e6
        return min(1.0, computing * self.runs / (self.seconds * self._most_at_once))

    @property
    def _most_at_once(self) -> int:
        return 1 if self.way == _RUN else self.workers

    @property
    def latency(self) -> tuple[float, float, float, float, float]:
        """The least, the mean, and the percentiles 50, 90 and 99, in seconds."""
        values = np.array(self.latencies)
        p50, p90, p99 = (float(value) for value in np.percentile(values, _PERCENTILES))
        return float(values.min()), float(values.mean()), p50, p90, p99

    def plain(self) -> dict[str, Any]:
        """For JSON, in milliseconds."""
        names = ("min", "mean", "p50", "p90", "p99")
        return {
            "way": self.way,
            "cores": self.cores,
            "depth": self.depth,
            "workers": self.workers,
            "runs": self.runs,
            "seconds": self.seconds,
            "fps": self.rate,
            "latency_ms": {n: s * 1000 for n, s in zip(names, self.latency, strict=True)},
            "stages_ms": {name: mean / 1000 for name, mean in self.stages.items()},
            "device_busy": self.busy,
        }


def measure(
    session: InferenceSession, feed: Feed, way: str, seconds: float, cores: str | None, depth: int
) -> Measured:
    """Run one way for a number of seconds, at least once; what is under way then is finished.

    The stages are of more runs after these: a profile costs some time of each.
    """
    start = time.perf_counter()
    latencies = _WAYS[way](session, feed, start + seconds, depth)
    took = time.perf_counter() - start
    with session.profile() as profile:
        _WAYS[way](session, feed, time.perf_counter() + seconds * _PROFILED, depth)
    workers = len(session.network.worker_cores)
    return Measured(
        way, cores, depth, workers, len(latencies), took, tuple(latencies), _means(profile)
    )


def _means(profile: Profile) -> dict[str, float]:
    return {stage.name: stage.mean for stage in profile.stages}


def _run(session: InferenceSession, feed: Feed, end: float, depth: int) -> list[float]:
    clock, run, latencies = time.perf_counter, session.run, []
    before = clock()
    while True:
        run(None, feed)
        now = clock()
        latencies.append(now - before)
        if now >= end:
            return latencies
        before = now


def _run_async(session: InferenceSession, feed: Feed, end: float, depth: int) -> list[float]:
    clock, latencies = time.perf_counter, []
    failures: list[str] = []
    pending = threading.Semaphore(0)

    def done(results: Any, began: float, error: str) -> None:
        latencies.append(clock() - began)
        if error:
            failures.append(error)
        pending.release()

    count = 0
    while not count or clock() < end:
        session.run_async(None, feed, done, clock())
        count += 1
    for _ in range(count):
        pending.acquire()
    if failures:
        session.run(None, feed)  # raises what it was, if it is lasting
        raise AnynpuError(failures[0])
    return latencies


def _run_pipeline(session: InferenceSession, feed: Feed, end: float, depth: int) -> list[float]:
    """As deep as the workers and the queue, so that none of them idles."""
    clock = time.perf_counter
    latencies: list[float] = []
    began: list[float] = []
    stages = len(session.network.worker_cores) + depth - 1
    while not began or clock() < end:
        began.append(clock())
        if session.run_pipeline(feed, depth=max(1, stages)) is not None:
            latencies.append(clock() - began[len(latencies)])
    for _ in session.flush():
        latencies.append(clock() - began[len(latencies)])
    return latencies


def _map(session: InferenceSession, feed: Feed, end: float, depth: int) -> list[float]:
    clock = time.perf_counter
    latencies: list[float] = []
    began: list[float] = []

    def feeds() -> Iterator[Feed]:
        while not began or clock() < end:
            began.append(clock())
            yield feed

    for number, _ in enumerate(session.map(feeds())):
        latencies.append(clock() - began[number])
    return latencies


_WAYS: dict[str, Callable[[InferenceSession, Feed, float, int], list[float]]] = {
    _RUN: _run,
    "run_async": _run_async,
    "run_pipeline": _run_pipeline,
    "map": _map,
}
WAYS = tuple(_WAYS)
