"""What no client should send: an answer or a closed connection, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anynpu.serving.protocol import METHODS, messages

from .conftest import Running, Serve

INFER = "/v2/models/add/infer"
GOOD = {
    "id": "a",
    "parameters": {"timeout": 1000000, "binary_data_output": False},
    "inputs": [
        {"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5], "data": [1.0] * 60,
         "parameters": {}},
    ],
    "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
}  # fmt: skip
WORDS = st.sampled_from(
    ["x", "y", "FP32", "UINT8", "BYTES", "", "../../etc/passwd", "\ud800", "\0", "é" * 300]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**31, 2**63, 2**64, -1, 10**300])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
REFUSALS = {200, 400, 404, 504}
few = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def running(serve: Serve, add: Path) -> Iterator[Running]:
    running = serve(add, body_timeout=0.5, max_connections=40, max_body=100_000)
    yield running
    # Whatever came, it serves on.
    assert running.ask(INFER, GOOD).status == 200
    assert not running.server._inference.under_way["add"]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value but in long lists."""
    found = [at] if at else []
    if isinstance(value, dict):
        found += [each for key in value for each in places(value[key], (*at, key))]
    elif isinstance(value, list) and len(value) < 10:
        found += [each for n, inner in enumerate(value) for each in places(inner, (*at, n))]
    return found


def changed(place: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(GOOD))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return copy


@few
@given(place=st.sampled_from(places(GOOD)), value=VALUES)
def test_requests_with_something_else_in_one_place(
    running: Running, place: tuple[Any, ...], value: Any
) -> None:
    answered = running.ask(INFER, changed(place, value))
    assert answered.status in REFUSALS
    if answered.status != 200:
        assert answered.error


@few
@given(body=st.binary(max_size=200), length=st.none() | st.integers(-5, 300) | WORDS)
def test_bodies_of_anything(running: Running, body: bytes, length: Any) -> None:
    text = str(length).encode("utf-8", "replace").decode("latin-1")
    if any(ord(letter) < 32 for letter in text):
        return  # which no HTTP client sends
    headers = {} if length is None else {"Inference-Header-Content-Length": text}
    assert running.ask(INFER, body, headers).status == 400


@few
@given(
    sizes=st.lists(st.integers(-1, 300) | st.just(2**63), max_size=3),
    data=st.binary(max_size=260),
)
def test_binary_sizes_that_may_not_add_up(running: Running, sizes: list[int], data: bytes) -> None:
    inputs = [
        {"name": name, "datatype": "FP32", "shape": [1, 3, 4, 5],
         "parameters": {"binary_data_size": size}}
        for name, size in zip(("x", "z", "w"), sizes, strict=False)
    ]  # fmt: skip
    text = json.dumps({"inputs": inputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    fits = sizes == [240] and len(data) == 240
    assert running.ask(INFER, text + data, headers).status == (200 if fits else 400)


@few
@given(data=st.binary(max_size=300))
def test_grpc_messages_of_anything(running: Running, data: bytes) -> None:
    with grpc.insecure_channel(running.grpc) as channel:
        for method in METHODS.values():
            if method.name.startswith("System"):
                continue  # what they may do is registered names alone
            call = channel.unary_unary(method.path).future(data, timeout=30)
            assert call.code() is not grpc.StatusCode.DEADLINE_EXCEEDED


@few
@given(
    shape=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=6),
    datatype=WORDS,
    raw=st.lists(st.binary(max_size=250), max_size=3),
)
def test_grpc_tensors_of_anything(
    running: Running, shape: list[int], datatype: str, raw: list[bytes]
) -> None:
    if "\ud800" in datatype:
        return  # protocol buffers have no such text
    request = messages.ModelInferRequest(model_name="add", raw_input_contents=raw)
    request.inputs.add(name="x", datatype=datatype, shape=shape)
    with grpc.insecure_channel(running.grpc) as channel:
        path = METHODS["ModelInfer"].path
        call = channel.unary_unary(path).future(request.SerializeToString(), timeout=30)
        assert call.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OK)


def connect(running: Running) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.port))
    connection.settimeout(30)
    return connection


HEAD = b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n" % INFER.encode()


@pytest.mark.parametrize("sent", [b"", b"POST /v2", HEAD[:-2], HEAD, HEAD + b"{", b"\0" * 500])
def test_half_messages_are_not_waited_for(running: Running, sent: bytes) -> None:
    """The answer 400 or 408, or a closed connection; also where the client stays."""
    with connect(running) as connection:
        connection.sendall(sent)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(10_000):
                answer += piece
    assert answer == b"" or answer[9:12] in (b"400", b"408")
    for _ in range(20):
        with connect(running) as connection:
            connection.sendall(sent)


@pytest.mark.parametrize("rest", ["head", "body"])
def test_slow_senders_are_not_waited_for(running: Running, rest: str) -> None:
    """A byte now and then keeps a connection no longer than the whole may take."""
    with connect(running) as connection:
        connection.sendall(b"POST /v2 HTTP/1.1\r\nx: " if rest == "head" else HEAD)
        assert is_ended(connection, [b"1"] * 600, 0.05)


def is_ended(connection: socket.socket, pieces: Iterable[bytes], pause: float) -> bool:
    """Whether the other side ends a connection while pieces are sent."""
    try:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
    except OSError:
        return True
    return False


def test_a_head_without_an_end(running: Running) -> None:
    with connect(running) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")
        lines = (b"x-%d: %s\r\n" % (number, b"y" * 1000) for number in range(100_000))
        assert is_ended(connection, lines, 0)


def flood(running: Running, count: int) -> None:
    """Connections that say nothing, and one that asks."""
    connections = []
    try:
        for _ in range(count):
            connections.append(connect(running))
        for connection in connections:
            connection.close()
        assert running.ask(INFER, GOOD).status == 200
    finally:
        for connection in connections:
            connection.close()


def test_more_connections_than_allowed(running: Running) -> None:
    held = [connect(running) for _ in range(200)]
    # Those beyond the limit are closed at once, the others as nothing comes.
    for connection in held:
        with connection, contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    assert running.ask(INFER, GOOD).status == 200


@pytest.mark.nightly
def test_ten_thousand_connections(serve: Serve, add: Path) -> None:
    running = serve(add)
    process = psutil.Process()
    before = process.memory_info().rss
    for _ in range(20):
        flood(running, 500)
    assert process.memory_info().rss - before < 100e6


@pytest.mark.nightly
def test_memory_stays_flat(serve: Serve, add: Path) -> None:
    """10^5 requests, half of them refused."""
    running = serve(add)
    process = psutil.Process()
    request = messages.ModelInferRequest(model_name="add")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 3, 4, 5])
    request.raw_input_contents.append(np.zeros(60, np.float32).tobytes())
    good, bad = request.SerializeToString(), request.SerializeToString()[:-4]
    sizes = []
    with grpc.insecure_channel(running.grpc) as channel:
        call = channel.unary_unary(METHODS["ModelInfer"].path)
        for _ in range(10):
            for _ in range(625):
                begun = [call.future(each, timeout=60) for each in (good, bad) * 8]
                assert {each.code() for each in begun} >= {grpc.StatusCode.OK}
            sizes.append(process.memory_info().rss)
    assert sizes[-1] - sizes[2] < 20e6, sizes


REGISTER = "/v2/systemsharedmemory/region/r/register"


@pytest.mark.parametrize(
    "key",
    ["../../etc/passwd", "/../etc/passwd", "/etc/passwd", "a/b", "", "/", "..", "\0", "a\0b",
     "\ud800", "x" * 300, "not-there-at-all"],
)  # fmt: skip
def test_a_key_of_shared_memory_is_no_path(running: Running, key: str) -> None:
    answered = running.ask(REGISTER, {"key": key, "offset": 0, "byte_size": 8})
    assert answered.status == 400
    assert "segment" in answered.error


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_segments_are_opened(running: Running, tmp_path: Path, kind: str) -> None:
    path = Path("/dev/shm", f"anynpu_test_{kind}")
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(100))
    try:
        if kind == "link":
            path.symlink_to(secret)
        elif kind == "folder":
            path.mkdir()
        else:
            os.mkfifo(path)
        answered = running.ask(REGISTER, {"key": path.name, "byte_size": 8})
        assert answered.status == 400
    finally:
        path.rmdir() if kind == "folder" else path.unlink()


def test_a_segment_that_becomes_shorter_is_refused(running: Running) -> None:
    """A mapping of it would end the server with SIGBUS."""
    path = Path("/dev/shm/anynpu_test_shorter")
    path.write_bytes(bytes(480))
    place: dict[str, Any] = {"shared_memory_region": "r", "shared_memory_byte_size": 240}
    try:
        assert running.ask(REGISTER, {"key": path.name, "byte_size": 480}).status == 200
        again = running.ask(REGISTER, {"key": path.name, "byte_size": 480})
        assert again.status == 400
        assert "registered already" in again.error
        sent: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5]}
        sent["parameters"] = place
        wanted = {"name": "y", "parameters": {**place, "shared_memory_offset": 240}}
        body = {"inputs": [sent], "outputs": [wanted]}
        assert running.ask(INFER, body).status == 200
        assert np.frombuffer(path.read_bytes(), np.float32).tolist() == [0] * 60 + [1] * 60
        for size in (300, 100):
            with path.open("r+b") as file:
                file.truncate(size)
            answered = running.ask(INFER, body)
            assert answered.status == 400
            assert "shorter" in answered.error
        assert path.stat().st_size == 100
        beyond = {**sent, "parameters": {**place, "shared_memory_offset": 241}}
        assert "which has 480" in running.ask(INFER, {"inputs": [beyond]}).error
        small = {**sent, "parameters": {**place, "shared_memory_byte_size": 239}}
        assert "takes 240 bytes" in running.ask(INFER, {"inputs": [small]}).error
    finally:
        path.unlink()
    assert running.ask("/v2/systemsharedmemory/unregister", b"").status == 200
    assert running.ask("/v2/systemsharedmemory/status").json == []
