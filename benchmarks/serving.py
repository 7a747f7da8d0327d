"""`anynpu serve` on the null device: what a request costs, what it adds, and how busy cores are.

The server is a process of its own, the command itself. Processor time is that of the server, for a
request, against a server that does nothing but take the same message by the same framework and
answer. Times and rates are a client's, on this machine.
"""

from __future__ import annotations

import functools
import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil

from anynpu.serving import rest_bodies, tensors
from anynpu.serving.protocol import METHODS, messages

from .measure import Comparison, compare
from .null_device import NullDevice, null_device

SIZES = (4, 224, 640)
_OUTPUT = (1, 3, 4, 4)
_INFER = METHODS["ModelInfer"].path
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
CLIENTS = 8
Call = Callable[[], object]


def run(rounds: int) -> Iterator[Comparison]:
    """`rounds` is in requests: as many in turns, ten times as many for a rate."""
    with null_device() as device:
        for size in SIZES:
            yield from _processor_time(device, size, 10 * rounds)
        yield from _added_time(device, rounds)
        yield from _rates(device, 10 * rounds)


# -------------------------------------------------------------------------------------- servers


@dataclass(frozen=True)
class Addresses:
    """Where a server listens, and its process."""

    http: str
    grpc: str
    process: psutil.Process

    def seconds(self) -> float:
        """Processor time that it has used."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def serving(command: Sequence[str], forms: Sequence[str] = ("http", "grpc")) -> Iterator[Addresses]:
    """A server on free ports, one for each form of the protocol, ready, for the block."""
    ports = [_free_port() for _ in forms]
    addresses = {form: f"127.0.0.1:{port}" for form, port in zip(forms, ports, strict=True)}
    named = [each for form, address in addresses.items() for each in (f"--{form}", address)]
    full = [sys.executable, *command, *named]
    with subprocess.Popen(full, stdout=subprocess.DEVNULL) as process:
        try:
            for port in ports:
                _await_port(port)
            yield Addresses(
                addresses.get("http", ""), addresses.get("grpc", ""), psutil.Process(process.pid)
            )
        finally:
            process.terminate()


def ours(device: NullDevice, size: int) -> Any:
    """Our server with the null device, on pictures of so many pixels a side."""
    device.shape((1, 3, size, size))
    device.set_output(_OUTPUT)
    model = f"null={device.model}"
    return serving(["-m", "anynpu.cli", "serve", model, "--library", str(device.library)])


def empty() -> Any:
    """A server of the same frameworks that takes a message and answers."""
    return serving([str(Path(__file__).with_name("empty_server.py"))])


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server doesn't listen")


# -------------------------------------------------------------------------------------- clients


def picture_of(size: int) -> Any:
    """A picture as the session takes it."""
    return np.zeros((1, 3, size, size), np.uint8)


@contextmanager
def by_grpc(address: str, size: int) -> Iterator[Call]:
    """A call that sends a picture and takes the output."""
    request = messages.ModelInferRequest(model_name="null")
    tensors.write_tensor(request, "x", picture_of(size))
    data = request.SerializeToString()
    with grpc.insecure_channel(address, options=_UNLIMITED) as channel:
        infer = channel.unary_unary(_INFER)
        yield lambda: infer(data, timeout=60)


@contextmanager
def by_rest(address: str, size: int) -> Iterator[Call]:
    """The same with binary tensors over one connection."""
    picture = picture_of(size)
    content = {
        "inputs": [rest_bodies.describe("x", picture, is_binary=True)],
        "parameters": {"binary_data_output": True},
    }
    body, length = rest_bodies.join_body(content, [picture.tobytes()])
    connection = http.client.HTTPConnection(address)
    headers = {rest_bodies.JSON_LENGTH: str(length)}

    def call() -> None:
        connection.request("POST", "/v2/models/null/infer", body, headers)
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(response.read().decode())
        response.read()

    try:
        yield call
    finally:
        connection.close()


@contextmanager
def by_shared_memory(address: str, size: int) -> Iterator[Call]:
    """The same with the picture and the output in shared memory, asked by gRPC."""
    picture = picture_of(size)
    output = 4 * int(np.prod(_OUTPUT))
    path = Path(f"/dev/shm/anynpu_benchmark_{os.getpid()}")
    path.write_bytes(picture.tobytes() + bytes(output))
    request = messages.ModelInferRequest(model_name="null")
    sent = request.inputs.add(name="x", datatype="UINT8", shape=picture.shape)
    wanted = request.outputs.add(name="y")
    for tensor, offset, count in ((sent, 0, picture.nbytes), (wanted, picture.nbytes, output)):
        tensor.parameters["shared_memory_region"].string_param = "r"
        tensor.parameters["shared_memory_offset"].int64_param = offset
        tensor.parameters["shared_memory_byte_size"].int64_param = count
    register = messages.SystemSharedMemoryRegisterRequest(
        name="r", key=path.name, byte_size=picture.nbytes + output
    )
    data = request.SerializeToString()
    try:
        with grpc.insecure_channel(address) as channel:
            name = METHODS["SystemSharedMemoryRegister"].path
            channel.unary_unary(name)(register.SerializeToString(), timeout=60)
            infer = channel.unary_unary(_INFER)
            yield lambda: infer(data, timeout=60)
            channel.unary_unary(METHODS["SystemSharedMemoryUnregister"].path)(b"", timeout=60)
    finally:
        path.unlink()


# ----------------------------------------------------------------------------------- what is seen


def _processor_time(device: NullDevice, size: int, requests: int) -> Iterator[Comparison]:
    device.cores(0, 0, 0)
    with ours(device, size) as served, empty() as bare:
        for name, client, address in (
            ("REST", by_rest, "http"),
            ("gRPC", by_grpc, "grpc"),
        ):
            with (
                client(getattr(served, address), size) as ask,
                client(getattr(bare, address), size) as ask_bare,
            ):
                title = f"server's processor time / an empty server's, {name}, {size}x{size}"
                yield cost(title, served, ask, bare, ask_bare, requests)
        with (
            by_shared_memory(served.grpc, size) as ask,
            by_grpc(bare.grpc, size) as ask_bare,
        ):
            title = f"the same, shared memory, {size}x{size} (other: gRPC)"
            yield cost(title, served, ask, bare, ask_bare, requests)


def cost(
    name: str, one: Addresses, ask: Call, other: Addresses, ask_other: Call, requests: int
) -> Comparison:
    """The servers' processor time for a request, in turns."""
    pairs = []
    for call in (ask, ask_other):
        for _ in range(20):
            call()
    for _ in range(5):
        pairs.append((_spent(one, ask, requests), _spent(other, ask_other, requests)))
    return Comparison(
        name,
        1000 * statistics.median(a for a, _ in pairs),
        1000 * statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
        None,
    )


def _spent(server: Addresses, ask: Call, requests: int) -> float:
    before = server.seconds()
    for _ in range(requests):
        ask()
    return (server.seconds() - before) / requests


def _added_time(device: NullDevice, rounds: int) -> Iterator[Comparison]:
    """A request's time against the same session's in this process, runs of 10 ms.

    And against that plus the time of an empty server's answer: what is left is the server's own.
    """
    for size, name, client in (
        (224, "gRPC", by_grpc),
        (224, "REST", by_rest),
        (224, "shared memory", by_shared_memory),
        (640, "shared memory", by_shared_memory),
    ):
        device.cores(10, 10, 10)
        form = "http" if name == "REST" else "grpc"
        with ours(device, size) as served, device.open() as session, empty() as bare:
            run = functools.partial(session.run, None, {"x": picture_of(size)})
            title = f"10 ms, {size}x{size}, {name} / in this process"
            with client(getattr(served, form), size) as ask:
                yield compare(title, ask, run, rounds=rounds, goal=1.1)
                if client is by_shared_memory:
                    continue
                with client(getattr(bare, form), size) as ask_bare:
                    yield compare(
                        f"{title} and an empty server's answer",
                        ask,
                        functools.partial(_both, run, ask_bare),
                        rounds=rounds,
                        goal=1.1,
                    )


def _both(run: Call, ask: Call) -> None:
    run()
    ask()


def _rates(device: NullDevice, requests: int) -> Iterator[Comparison]:
    """Three cores at 10 ms, eight clients: milliseconds a request against the ideal."""
    device.cores(10, 10, 10)
    for size, name, client in (
        (4, "gRPC", by_grpc),
        (224, "gRPC", by_grpc),
        (224, "REST", by_rest),
        (224, "shared memory", by_shared_memory),
    ):
        with ours(device, size) as served:
            address = served.http if name == "REST" else served.grpc
            taken = statistics.median(stream(client, address, size, requests) for _ in range(3))
        ideal = 10 / 3
        title = f"3 cores at 10 ms, {CLIENTS} clients, {size}x{size}, {name} / ideal"
        yield Comparison(title, taken, ideal, taken / ideal, 1 / 0.95)


def stream(client: Any, address: str, size: int, requests: int) -> float:
    """Milliseconds for a request with clients that each ask again once they have their answer."""
    each = requests // CLIENTS

    def ask_all(call: Call) -> None:
        for _ in range(each):
            call()

    # A gRPC channel is for many calls at once.
    connections = 1 if client in (by_grpc, by_shared_memory) else CLIENTS
    contexts = [client(address, size) for _ in range(connections)]
    calls = [context.__enter__() for context in contexts]
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            begin = time.perf_counter()
            list(pool.map(ask_all, (calls * CLIENTS)[:CLIENTS]))
            return (time.perf_counter() - begin) * 1000 / (each * CLIENTS)
    finally:
        for context in contexts:
            context.__exit__(None, None, None)
