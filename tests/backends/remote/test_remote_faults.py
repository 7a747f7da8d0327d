"""Servers that are gone, hang, are full or answer garbage: no result is lost or there twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu
from anynpu.serving.protocol import messages
from anynpu.serving.tensors import write_tensor

from .conftest import Open, Serve
from .scripted import SHAPE, Answer, Refusal, doubled, free_port

Feed = dict[str, NDArray[Any]]


def feed(value: float) -> Feed:
    return {"x": np.full(SHAPE, value, np.float32)}


def refusing(code: str, text: str, times: float = float("inf")) -> Callable[[Feed], Feed]:
    """What refuses so often, and computes from then on."""
    left = [times]

    def infer(given: Feed) -> Feed:
        left[0] -= 1
        if left[0] >= 0:
            raise Refusal(code, text)
        return doubled(given)

    return infer


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "ABORTED"])
def test_what_may_be_repeated_runs_elsewhere(code: str, serve: Serve, connect: Open) -> None:
    bad, good = serve(refusing(code, "not now")), serve()
    session = connect(bad, good)
    values = [int(results[0].max()) for results in session.map(feed(n) for n in range(40))]
    assert values == [2 * n for n in range(40)]
    assert bad.feeds > 0
    assert good.feeds == 40


@pytest.mark.parametrize("code", ["INTERNAL", "UNAVAILABLE"])
def test_a_request_runs_three_times_at_most(code: str, serve: Serve, connect: Open) -> None:
    servers = [serve(refusing(code, f"NPU {number} is broken")) for number in range(4)]
    session = connect(*servers)
    with pytest.raises(anynpu.ServerError, match="is broken") as caught:
        session.run(None, feed(1))
    assert caught.value.code == code
    assert sum(server.feeds for server in servers) == 3


@pytest.mark.parametrize(
    "code", ["UNKNOWN", "UNIMPLEMENTED", "DATA_LOSS", "UNAUTHENTICATED", "PERMISSION_DENIED"]
)
def test_other_failures_are_told_at_once(code: str, serve: Serve, connect: Open) -> None:
    servers = [serve(refusing(code, "this is why")) for _ in range(2)]
    session = connect(*servers)
    with pytest.raises(anynpu.ServerError, match="this is why") as caught:
        session.run(None, feed(1))
    assert (caught.value.code, caught.value.text) == (code, "this is why")
    assert sum(server.feeds for server in servers) == 1
    is_refusal = code in ("UNAUTHENTICATED", "PERMISSION_DENIED")
    assert isinstance(caught.value, PermissionError) == is_refusal


def test_a_full_server_is_asked_again(serve: Serve, connect: Open) -> None:
    server = serve(refusing("RESOURCE_EXHAUSTED", "the queue is full", times=6))
    assert connect(server).run(None, feed(4))[0].max() == 8
    assert server.feeds == 7


def test_a_server_that_stays_full(serve: Serve, connect: Open) -> None:
    session = connect(
        serve(refusing("RESOURCE_EXHAUSTED", "the queue is full")), submit_timeout_ms=300
    )
    with pytest.raises(anynpu.ServerBusyError, match="the queue is full") as caught:
        session.run(None, feed(1))
    assert isinstance(caught.value, anynpu.QueueFullError)


def test_what_is_too_large_for_a_server_isnt_repeated(serve: Serve, connect: Open) -> None:
    server = serve(shape=(-1, 3, 4, 4))
    session = connect(server)
    with pytest.raises(anynpu.RejectedRequestError, match="larger than max"):
        session.run(None, np.ones((9000, 3, 4, 4), np.float32))
    assert session.run(None, np.ones((2, 3, 4, 4), np.float32))[0].shape == (2, 3, 4, 4)


# ------------------------------------------------------------------------------------- garbage


def answer(**results: NDArray[Any]) -> Any:
    message = messages.ModelInferResponse(model_name="m")
    for name, array in results.items():
        write_tensor(message, name, array)
    return message


def without_bytes() -> Any:
    message = answer(y=np.ones(SHAPE, np.float32))
    message.raw_output_contents[0] = b"123"
    return message


def with_too_many() -> Any:
    message = answer(y=np.ones(SHAPE, np.float32))
    message.raw_output_contents.append(b"")
    return message


def negative() -> Any:
    message = answer(y=np.ones(SHAPE, np.float32))
    message.outputs[0].shape[1] = -3
    return message


ONES = np.ones(SHAPE, np.float32)
GARBAGE: dict[str, tuple[Callable[[], Any], str]] = {
    "no message": (lambda: b"\xff" * 40, "INTERNAL|deserializ"),
    "nothing": (answer, "it has the outputs \\[\\]"),
    "another name": (lambda: answer(z=ONES), "it has the outputs \\['z'\\]"),
    "one more": (lambda: answer(y=ONES, z=ONES), "it has the outputs \\['y', 'z'\\]"),
    "another shape": (lambda: answer(y=ONES[0]), "'y' is float32 of \\(3, 4, 4\\)"),
    "another dtype": (lambda: answer(y=ONES.astype(np.int8)), "'y' is int8"),
    "too few bytes": (without_bytes, "takes 192 bytes; found 3"),
    "too many contents": (with_too_many, "1 tensors have 2 raw contents"),
    "a negative size": (negative, "the shape"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_no_result(kind: str, serve: Serve, connect: Open) -> None:
    make, match = GARBAGE[kind]

    def infer(given: Feed) -> Feed:
        raise Answer(make())

    bad = serve(infer)
    with pytest.raises(anynpu.ServerError, match=match):
        connect(bad).run(None, feed(1))
    assert bad.feeds == 3
    good = serve()
    results = connect(bad, good).map(feed(n) for n in range(10))
    assert [int(each[0].max()) for each in results] == [2 * n for n in range(10)]


def test_metadata_that_is_garbage(serve: Serve) -> None:
    server = serve()
    server.datatype = "BYTES"
    with pytest.raises(anynpu.ModelError, match="'x' has the datatype 'BYTES'"):
        anynpu.InferenceSession(server.address)


# --------------------------------------------------------------------------- gone and back again


def test_a_server_goes_in_mid_work_and_comes_back(serve: Serve, connect: Open) -> None:
    def slow(given: Feed) -> Feed:
        time.sleep(0.01)
        return doubled(given)

    going, staying = serve(slow), serve(slow)
    session = connect(going, staying)
    delivered: Counter[int] = Counter()
    for number, results in enumerate(session.map(feed(n) for n in range(400))):
        delivered[number] += 1
        assert int(results[0].max()) == 2 * number
        if number == 60:
            going.stop()
            before = going.feeds
        if number == 120:
            going.start()
        if number > 120 and going.feeds == before:
            time.sleep(0.02)  # it is asked again every so often
    assert delivered == Counter(range(400))
    assert going.feeds > before


def test_a_server_that_hangs_is_left(serve: Serve, connect: Open) -> None:
    go_on = threading.Event()

    def hang(given: Feed) -> Feed:
        go_on.wait(60)
        return doubled(given)

    hanging, good = serve(hang), serve()
    session = connect(hanging, good, timeout_ms=500)
    try:
        values = [int(each[0].max()) for each in session.map(feed(n) for n in range(30))]
    finally:
        go_on.set()
    assert values == [2 * n for n in range(30)]
    go_on.clear()
    alone = connect(hanging, timeout_ms=100)
    with pytest.raises(anynpu.ServerTimeoutError, match="timeout_ms") as caught:
        alone.run(None, feed(1))
    go_on.set()
    assert isinstance(caught.value, TimeoutError)


def test_all_are_gone_and_one_comes_back(serve: Serve, connect: Open) -> None:
    servers = serve(), serve()
    session = connect(*servers, reconnect_timeout_ms=600)
    session.run(None, feed(1))
    for server in servers:
        server.stop()
    with pytest.raises(anynpu.ServerUnavailableError, match="none of 2 servers") as caught:
        session.run(None, feed(1))
    assert all(server.address in str(caught.value) for server in servers)
    assert isinstance(caught.value, ConnectionError)
    servers[1].start()
    time.sleep(0.1)
    for _ in range(50):
        try:
            assert session.run(None, feed(5))[0].max() == 10
            break
        except anynpu.ServerUnavailableError:
            pass  # gRPC waits a second before it connects anew
    else:
        raise AssertionError("it was not asked again")


def test_requests_wait_for_a_server_that_starts_anew(serve: Serve, connect: Open) -> None:
    server = serve()
    session = connect(server, reconnect_timeout_ms=60_000)
    session.run(None, feed(1))
    server.stop()
    futures = [session.submit(None, feed(n)) for n in range(3)]
    server.start()
    assert [int(future.result()[0].max()) for future in futures] == [0, 2, 4]


def test_one_that_isnt_there_at_first_joins_later(serve: Serve, connect: Open) -> None:
    server, port = serve(), free_port()
    session = connect(server, f"grpc://127.0.0.1:{port}/m", connect_timeout_ms=300)
    assert session.run(None, feed(1))[0].max() == 2
    late = serve(port=port)
    for _ in range(500):
        list(session.map(feed(n) for n in range(8)))
        if late.feeds:
            break
        time.sleep(0.02)
    assert late.feeds


def test_one_that_comes_back_with_another_model_gets_no_requests(
    serve: Serve, connect: Open
) -> None:
    changing, good = serve(), serve()
    session = connect(changing, good)
    changing.stop()
    list(session.map(feed(n) for n in range(8)))
    changing.shape = (1, 3, 4, 5)
    changing.start()
    before = changing.feeds
    time.sleep(1.5)
    assert [int(r[0].max()) for r in session.map(feed(n) for n in range(20))] == [
        2 * n for n in range(20)
    ]
    assert changing.feeds == before


def test_one_that_isnt_ready_gets_no_requests(serve: Serve, connect: Open) -> None:
    busy, good = serve(refusing("UNAVAILABLE", "the model is opened anew")), serve()
    busy.is_ready = False
    session = connect(busy, good)
    list(session.map(feed(n) for n in range(20)))
    first = busy.feeds
    assert 0 < first <= 3
    time.sleep(0.5)
    list(session.map(feed(n) for n in range(20)))
    assert busy.feeds == first


def test_nobody_is_there() -> None:
    address = f"grpc://127.0.0.1:{free_port()}/m"
    options = {"connect_timeout_ms": 300}
    with pytest.raises(anynpu.ServerError, match=address):
        anynpu.InferenceSession(address, provider_options=options)


def test_closing_finishes_what_was_submitted(serve: Serve, connect: Open) -> None:
    def slow(given: Feed) -> Feed:
        time.sleep(0.05)
        return doubled(given)

    session = connect(serve(slow, cores=1))
    futures = [session.submit(None, feed(n)) for n in range(5)]
    session.close()
    assert [int(future.result()[0].max()) for future in futures] == [0, 2, 4, 6, 8]
    with pytest.raises(anynpu.ClosedError):
        session.run(None, feed(1))
