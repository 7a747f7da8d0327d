"""Servers for tests: on an event loop of their own, on any free ports."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from anynpu.soft.build import BuildOptions, build_file
from benchmarks import null

from .. import models
from ..session.conftest import NullDevice, device, null_device

if TYPE_CHECKING:
    from anynpu.serving.server import Server

__all__ = ["NullDevice", "device", "null_device"]

for needed in ("grpc", "starlette", "uvicorn", "prometheus_client", "zmq"):
    pytest.importorskip(needed)

_T = TypeVar("_T")
SECONDS = 60
"""How long a test waits for what should come at once."""


class Answered:
    """An HTTP response, read."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


class Running:
    """A server, the loop that it runs on, and plain requests to it."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self._loop = server, loop

    @property
    def http(self) -> str:
        return self.server.addresses["http"].partition("://")[2]

    @property
    def grpc(self) -> str:
        return self.server.addresses["grpc"].partition("://")[2]

    @property
    def port(self) -> int:
        return int(self.http.rpartition(":")[2])

    def wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def begin(self, work: Coroutine[Any, Any, _T]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = ""
    ) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        chosen = method or ("GET" if data is None else "POST")
        try:
            connection.request(chosen, path, data, headers or {})
            return Answered(connection.getresponse())
        finally:
            connection.close()


Serve = Callable[..., Running]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that serves models (paths, or settings of them) with some settings."""
    from anynpu.serving.server import Server
    from anynpu.serving.settings import ModelSettings, ServeSettings

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running: list[Running] = []

    def begin(*served: Path | ModelSettings, **settings: Any) -> Running:
        named = [
            each if isinstance(each, ModelSettings) else ModelSettings(each.stem, each)
            for each in served
        ]
        given = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "reload": 0.0, **settings}
        server = Server(ServeSettings(models=tuple(named), **given))
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS)
        running.append(Running(server, loop))
        return running[-1]

    yield begin
    for each in running:
        each.wait_for(each.server.stop())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def file_of(folder: Path, name: str, model: bytes) -> Path:
    """A soft .rknn file of an ONNX model."""
    path = folder / f"{name}.rknn"
    build_file(model, str(path), BuildOptions())
    return path


@pytest.fixture
def add(tmp_path: Path) -> Path:
    """A file of the model y = x + 1 of (1, 3, 4, 5)."""
    return file_of(tmp_path, "add", models.add_one())


@pytest.fixture
def slow(null_device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A function to settings of a model ``null`` on cores whose runs take so many milliseconds."""
    from anynpu.serving.settings import ModelSettings

    def settings(*milliseconds: float, image: str = "1,1,1,1", **options: Any) -> ModelSettings:
        times = ",".join(str(round(each * 1000)) for each in milliseconds)
        monkeypatch.setenv("NULL_DEVICE_CORES", times)
        monkeypatch.setenv("NULL_DEVICE_INPUT", image)
        monkeypatch.setenv("NULL_DEVICE_OUTPUT", "1,1,1,1")
        path = tmp_path / "null.rknn"
        path.write_bytes(null.RKNN_MODEL)
        chosen = {"library": str(null_device), "layout": "nhwc", **options}
        return ModelSettings("null", path, options=chosen)

    return settings


NULL_REQUEST = {"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, 1, 1, 1], "data": [7]}]}
