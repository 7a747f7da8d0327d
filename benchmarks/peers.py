"""`anynpu serve` against other servers round the same session: KServe's model server, Ray Serve.

Each runs where it is installed (`pip install kserve 'ray[serve]'`) as a process of its own, with
the null device, in turns with ours. Ray Serve, which has no protocol of its own, gets a picture's
bytes by HTTP; ours gets the protocol's binary REST form then.
"""

from __future__ import annotations

import http.client
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import serving
from .measure import Comparison, compare
from .null_device import NullDevice, null_device
from .serving import Call

_SIZES = (224, 640)
_SECONDS = 60


def run(rounds: int) -> Iterator[Comparison]:
    """`rounds` is in requests: as many in turns, ten times as many for a rate."""
    with null_device() as device:
        if find_spec("kserve") is not None:
            for size in _SIZES:
                yield from _kserve(device, size, rounds)
        if _has_ray_serve():
            for size in _SIZES:
                yield from _ray_serve(device, size, rounds)


def _has_ray_serve() -> bool:
    return all(find_spec(name) is not None for name in ("ray", "fastapi", "pydantic"))


def _kserve(device: NullDevice, size: int, rounds: int) -> Iterator[Comparison]:
    title = f"{size}x{size}, gRPC / KServe's server"
    device.cores(10, 10, 10)
    with serving.ours(device, size) as ours, _peer(device, "kserve_server.py") as theirs:
        with (
            serving.by_grpc(ours.grpc, size) as ask,
            serving.by_grpc(theirs.grpc, size) as ask_theirs,
        ):
            _await_answer(ask_theirs)
            yield compare(f"10 ms, {title}", ask, ask_theirs, rounds=rounds, goal=1.0)
        taken = _rate(serving.by_grpc, ours.grpc, size, 10 * rounds)
        theirs_taken = _rate(serving.by_grpc, theirs.grpc, size, 10 * rounds)
        yield _rate_comparison(title, taken, theirs_taken)
    device.cores(0, 0, 0)
    with (
        serving.ours(device, size) as ours,
        _peer(device, "kserve_server.py") as theirs,
        serving.by_grpc(ours.grpc, size) as ask,
        serving.by_grpc(theirs.grpc, size) as ask_theirs,
    ):
        _await_answer(ask_theirs)
        title = f"server's processor time, {title}"
        yield serving.cost(title, ours, ask, theirs, ask_theirs, 5 * rounds)


def _ray_serve(device: NullDevice, size: int, rounds: int) -> Iterator[Comparison]:
    """Without the processor time, which is that of several processes."""
    title = f"{size}x{size}, REST / Ray Serve"
    device.cores(10, 10, 10)
    with (
        serving.ours(device, size) as ours,
        _peer(device, "ray_serve_server.py", forms=("http",)) as theirs,
    ):
        with (
            serving.by_rest(ours.http, size) as ask,
            _by_bytes(theirs.http, size) as ask_theirs,
        ):
            _await_answer(ask_theirs)
            yield compare(f"10 ms, {title}", ask, ask_theirs, rounds=rounds, goal=1.0)
        taken = _rate(serving.by_rest, ours.http, size, 10 * rounds)
        theirs_taken = _rate(_by_bytes, theirs.http, size, 10 * rounds)
        yield _rate_comparison(title, taken, theirs_taken)


def _peer(device: NullDevice, program: str, forms: tuple[str, ...] = ("http", "grpc")) -> Any:
    path = Path(__file__).with_name(program)
    command = [str(path), "--model", str(device.model), "--library", str(device.library)]
    return serving.serving(command, forms)


@contextmanager
def _by_bytes(address: str, size: int) -> Iterator[Call]:
    """A call that posts a picture's bytes and takes the output's."""
    connection = http.client.HTTPConnection(address)
    body = serving.picture_of(size).tobytes()

    def call() -> None:
        connection.request("POST", "/", body)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(answer.decode(errors="replace"))

    try:
        yield call
    finally:
        connection.close()


def _await_answer(ask: Call) -> None:
    """A peer listens before it has loaded its model."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            ask()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def _rate(client: Any, address: str, size: int, requests: int) -> float:
    return statistics.median(serving.stream(client, address, size, requests) for _ in range(3))


def _rate_comparison(title: str, taken: float, theirs: float) -> Comparison:
    name = f"3 cores at 10 ms, {serving.CLIENTS} clients, {title}"
    return Comparison(name, taken, theirs, taken / theirs, 1.0)
