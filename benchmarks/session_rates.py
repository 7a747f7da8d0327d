"""How much of the cores' time requests in a row get, against the ideal, a peer and plain threads.

Milliseconds for a request, the median of three streams; the ideal is what the cores could do with
no time lost in between. How near to it this machine's timers come shows with plain C threads.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .measure import Comparison
from .null_device import NullDevice, null_device

SHAPE = (1, 3, 4, 4)
FEED = {"x": np.ones(SHAPE, np.float32)}
DEPTH = 6
Stream = Callable[[Any, int], None]


def run(rounds: int) -> Iterator[Comparison]:
    """`rounds` is in requests of a tenth of a stream."""
    requests = max(rounds, 10) * 10
    with null_device() as device:
        device.shape(SHAPE)
        yield from _equal_cores(device, requests)
        yield from _slow_core(device, requests)
        yield from _busy_thread(device, requests)


def _equal_cores(device: NullDevice, requests: int) -> Iterator[Comparison]:
    device.cores(10, 10, 10)
    ideal = 10 / 3
    with device.open() as ours:
        yield _compared("3 cores at 10 ms, plain C threads", device, _c_threads, requests, ideal)
        for name, stream in STREAMS.items():
            yield _compared(f"3 cores at 10 ms, {name}", ours, stream, requests, ideal, goal=0.97)
    peer = device.open_peer(schedule=[0, 1, 2])
    for name in ("run_async", "run_pipeline", "batch dispatch"):
        title = f"3 cores at 10 ms, EZ with a schedule, {name}"
        yield _compared(title, peer, STREAMS[name], requests, ideal)


def _slow_core(device: NullDevice, requests: int) -> Iterator[Comparison]:
    device.cores(30, 10, 10)
    ideal = 1000 / (1000 / 30 + 2 * 1000 / 10)
    title = "core 0 at 30 ms, no options"
    with device.open() as ours:
        for name in ("run_async", "map"):
            yield _compared(f"{title}, {name}", ours, STREAMS[name], requests, ideal, goal=0.97)
    peer = device.open_peer()
    yield _compared(f"{title}, EZ, run_async", peer, _run_async, requests, ideal)
    scheduled = device.open_peer(schedule=[0, 1, 2])
    title = "core 0 at 30 ms, EZ with a schedule, run_async"
    yield _compared(title, scheduled, _run_async, requests, ideal)


def _busy_thread(device: NullDevice, requests: int) -> Iterator[Comparison]:
    device.cores(10, 10, 10)
    ideal = 10 / 3
    title = "3 cores at 10 ms, Python computes"
    with device.open() as ours:
        for name in ("run_async", "run_pipeline", "map"):
            stream = _beside_computing(STREAMS[name])
            yield _compared(f"{title}, {name}", ours, stream, requests, ideal, goal=0.95)
    peer = device.open_peer(schedule=[0, 1, 2])
    yield _compared(f"{title}, EZ, run_async", peer, _beside_computing(_run_async), requests, ideal)
    sessions = [device.open(schedule=[core]) for core in range(3)]
    threads = _beside_computing(_python_threads)
    yield _compared(f"{title}, Python threads and run", sessions, threads, requests, ideal)
    for session in sessions:
        session.close()


def _compared(
    name: str, session: Any, stream: Stream, requests: int, ideal: float, goal: float | None = None
) -> Comparison:
    """A stream's time for a request over the ideal one; `goal` is the share of the ideal rate."""
    stream(session, DEPTH)
    taken = statistics.median(_milliseconds(session, stream, requests) for _ in range(3))
    most = 1 / goal if goal else None
    return Comparison(f"{name} / ideal", taken, ideal, taken / ideal, most)


def _milliseconds(session: Any, stream: Stream, requests: int) -> float:
    start = time.perf_counter()
    stream(session, requests)
    return (time.perf_counter() - start) * 1000 / requests


def _c_threads(device: NullDevice, requests: int) -> None:
    device.saturate(requests)


def _run_async(session: Any, requests: int) -> None:
    done = threading.Semaphore(0)
    for _ in range(requests):
        session.run_async(None, FEED, lambda *_: done.release())
    for _ in range(requests):
        done.acquire()


def _run_pipeline(session: Any, requests: int) -> None:
    ended = sum(session.run_pipeline(FEED, depth=DEPTH) is not None for _ in range(requests))
    if hasattr(session, "flush"):
        session.flush()
        return
    while ended < requests:  # only a further request lets one come out of the peer's pipeline
        ended += session.run_pipeline(FEED, depth=DEPTH) is not None


def _map(session: Any, requests: int) -> None:
    for _ in session.map(FEED for _ in range(requests)):
        pass


def _batch(session: Any, requests: int) -> None:
    values = np.ones((requests, *SHAPE[1:]), np.float32)
    session.run(None, {"x": values}, {"ztu_modelrt_dispatch_batch": True})


def _python_threads(sessions: list[Any], requests: int) -> None:
    left: queue.Queue[int] = queue.Queue()
    for number in range(requests):
        left.put(number)

    def work(session: Any) -> None:
        while True:
            try:
                left.get_nowait()
            except queue.Empty:
                return
            session.run(None, FEED)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


STREAMS: dict[str, Stream] = {
    "run_async": _run_async,
    "run_pipeline": _run_pipeline,
    "map": _map,
    "batch dispatch": _batch,
}


def _beside_computing(stream: Stream) -> Stream:
    """The stream on a thread, while this one computes in pure Python and never lets go."""

    def both(session: Any, requests: int) -> None:
        thread = threading.Thread(target=stream, args=(session, requests))
        thread.start()
        number = 0
        while thread.is_alive():
            for _ in range(1000):
                number = (number * 3 + 1) % 1_000_003
        thread.join()

    return both
