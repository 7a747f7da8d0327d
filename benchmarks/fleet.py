"""Several boards as one: how much of their cores' time a session of addresses and Ray make use of.

Each board is a process of `anynpu serve`, or a raylet, on this machine with a null device. Times
are milliseconds a frame of 3x224x224 uint8, the median of three streams; the ideal is what the
cores could do with no time lost in between.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

import anynpu

from .measure import Comparison
from .null_device import NullDevice, null_device

SHAPE = (1, 3, 224, 224)
FRAME = np.ones(SHAPE, np.uint8)
_OUTPUT = (1, 3, 4, 4)
_SHARE = 0.95
"""Of the ideal rate."""
_RAY_SHARE = 0.9
"""Of the session's."""
EQUAL = (10, 10, 10)
SLOW = (30, 30, 30)
"""Of which this machine's processors can keep more boards busy."""
UNLIKE = (EQUAL, (30, 30), (25,))


def run(rounds: int) -> Iterator[Comparison]:
    """`rounds` is in frames of a tenth of a stream, for each board."""
    frames = max(rounds, 10) * 10
    with null_device() as device:
        device.shape(SHAPE)
        device.set_output(_OUTPUT)
        yield _rate(device, "one board of three cores at 10 ms", [EQUAL], frames)
        yield _rate(device, "two boards of three cores at 10 ms", [EQUAL] * 2, 2 * frames)
        yield _rate(device, "two boards of three cores at 30 ms", [SLOW] * 2, frames)
        yield _rate(device, "four boards of three cores at 30 ms", [SLOW] * 4, 2 * frames)
        yield _rate(device, "boards of 3 x 10, 2 x 30 and 25 ms", UNLIKE, 2 * frames)
        yield _killed(device, 2 * frames)
        if find_spec("ray") is not None:
            yield _ray(device, 2 * frames)


# --------------------------------------------------------------------------------------- boards


@contextmanager
def board(device: NullDevice, milliseconds: Sequence[float]) -> Iterator[tuple[str, Any]]:
    """A server of the null device's model: its address, and its process."""
    device.cores(*milliseconds)
    port = free_port()
    command = [sys.executable, "-m", "anynpu.cli", "serve", f"m={device.model}", "--http", ""]
    command += ["--library", str(device.library), "--grpc", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not any(line.startswith("serving on") for line in process.stdout):
                raise RuntimeError(f"the server ended with {process.wait()}")
            yield f"grpc://127.0.0.1:{port}/m", process
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _ideal(boards: Sequence[Sequence[float]]) -> float:
    """Milliseconds a frame of all cores at work."""
    return 1 / sum(1 / each for milliseconds in boards for each in milliseconds)


# --------------------------------------------------------------------------------------- streams


def _rate(
    device: NullDevice, name: str, boards: Sequence[Sequence[float]], frames: int
) -> Comparison:
    with ExitStack() as stack:
        addresses = [stack.enter_context(board(device, each))[0] for each in boards]
        session = stack.enter_context(anynpu.InferenceSession(addresses))
        taken = _milliseconds(session, frames)
    ideal = _ideal(boards)
    return Comparison(f"{name}, map / ideal", taken, ideal, taken / ideal, 1 / _SHARE)


def _milliseconds(target: Any, frames: int) -> float:
    """For a frame of a stream through what has a session's `map`."""

    def stream(count: int) -> float:
        start = time.perf_counter()
        found = sum(1 for _ in target.map({"x": FRAME} for _ in range(count)))
        if found != count:
            raise RuntimeError(f"{found} results for {count} frames")
        return (time.perf_counter() - start) * 1000 / count

    stream(frames // 4)
    return statistics.median(stream(frames) for _ in range(3))


def _killed(device: NullDevice, frames: int) -> Comparison:
    """The longest time without a result, in the frames' order, when one of two boards dies."""
    with ExitStack() as stack:
        boards = [stack.enter_context(board(device, EQUAL)) for _ in range(2)]
        session = stack.enter_context(anynpu.InferenceSession([address for address, _ in boards]))
        _milliseconds(session, 60)
        times = []
        for _ in session.map({"x": FRAME} for _ in range(frames)):
            times.append(time.perf_counter())
            if len(times) == frames // 3:
                threading.Thread(target=boards[0][1].kill).start()
    if len(times) != frames:
        raise RuntimeError(f"{len(times)} results for {frames} frames")
    gaps = [1000 * (after - before) for before, after in pairwise(times)]
    third = frames // 3
    before, after = max(gaps[: third - 1]), max(gaps[third - 1 :])
    name = "one of two boards killed: longest gap after / before"
    return Comparison(name, after, before, after / before, None)


def _ray(device: NullDevice, frames: int) -> Comparison:
    """Ray with stacks, against the session of as many servers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    import anynpu.ray

    with ExitStack() as stack:
        addresses = [stack.enter_context(board(device, EQUAL))[0] for _ in range(2)]
        session = stack.enter_context(anynpu.InferenceSession(addresses))
        by_session = _milliseconds(session, frames)
    cluster = Cluster()
    for _ in range(2):
        cluster.add_node(
            num_cpus=1,
            resources={"npu_core": len(EQUAL)},
            object_store_memory=200_000_000,
            include_dashboard=False,
        )
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        options = {"library": str(device.library)}
        with anynpu.ray.Boards(device.model, provider_options=options) as boards:
            by_ray = _milliseconds(boards, frames)
    finally:
        ray.shutdown()
        cluster.shutdown()
    name = "two boards in Ray, in stacks / a session of two servers"
    return Comparison(name, by_ray, by_session, by_ray / by_session, 1 / _RAY_SHARE)
