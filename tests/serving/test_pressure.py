"""Full queues, deadlines, clients that go, changed files, hung devices, and the server's end."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from anynpu.serving import tensors
from anynpu.serving.protocol import Stub, messages

from .. import models
from .conftest import NULL_REQUEST, NullDevice, Running, Serve, file_of

INFER = "/v2/models/null/infer"
Slow = Callable[..., Any]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what comes of itself."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it didn't come")


def under_way(running: Running) -> int:
    return sum(running.server._inference.under_way.values())


def _events(count: int) -> list[threading.Event]:
    return [threading.Event() for _ in range(count)]


def null_message(**parameters: int) -> Any:
    request = messages.ModelInferRequest(model_name="null")
    tensors.write_tensor(request, "x", np.zeros((1, 1, 1, 1), np.uint8))
    for name, value in parameters.items():
        request.parameters[name].int64_param = value
    return request


def test_a_full_queue_is_said_at_once(serve: Serve, slow: Slow, device: NullDevice) -> None:
    running = serve(slow(0), max_queue_size=2)
    with ThreadPoolExecutor(8) as pool, grpc.insecure_channel(running.grpc) as channel:
        with device.holding():
            taken = [pool.submit(running.ask, INFER, NULL_REQUEST) for _ in range(3)]
            until(lambda: under_way(running) == 3)
            refused = running.ask(INFER, NULL_REQUEST)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "the queue of 1 workers is full" in refused.error
            with pytest.raises(grpc.RpcError) as caught:
                Stub(channel).ModelInfer(null_message(), timeout=30)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            text = running.ask("/metrics").body.decode()
            assert 'anynpu_tasks_waiting{model="null"} 2.0' in text
            assert 'anynpu_tasks_running{model="null"} 1.0' in text
        assert [each.result().status for each in taken] == [200] * 3
    assert running.ask(INFER, NULL_REQUEST).status == 200


@pytest.mark.nightly
def test_a_flood_is_refused_by_name(serve: Serve, slow: Slow) -> None:
    """More calls at once than gRPC keeps for a server that has not looked at them yet."""
    running = serve(slow(5, 5, 5), http="")
    with grpc.insecure_channel(running.grpc) as channel:
        infer = Stub(channel).ModelInfer
        calls = [infer.future(null_message(), timeout=60) for _ in range(2500)]
        failures = [call.exception() for call in calls]
    codes = {failure.code() for failure in failures if failure is not None}
    assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert failures.count(None) > 100


def test_requests_under_way_are_limited(serve: Serve, slow: Slow, device: NullDevice) -> None:
    running = serve(slow(0), max_requests=2)
    with ThreadPoolExecutor(8) as pool:
        with device.holding():
            taken = [pool.submit(running.ask, INFER, NULL_REQUEST) for _ in range(2)]
            until(lambda: under_way(running) == 2)
            refused = running.ask(INFER, NULL_REQUEST)
            assert refused.status == 503
            assert "2 requests are under way" in refused.error
        assert [each.result().status for each in taken] == [200] * 2


def test_deadlines_take_tasks_back(serve: Serve, slow: Slow, device: NullDevice) -> None:
    running = serve(slow(0), max_queue_size=2)
    with ThreadPoolExecutor(8) as pool, grpc.insecure_channel(running.grpc) as channel:
        with device.holding():
            first = pool.submit(running.ask, INFER, NULL_REQUEST)
            until(lambda: under_way(running) == 1)
            hurried = {**NULL_REQUEST, "parameters": {"timeout": 20_000}}
            # More than fit: those that were late have left their places.
            for _ in range(4):
                late = running.ask(INFER, hurried)
                assert late.status == 504
                assert "within 0.02 s" in late.error
                for options in ({"timeout": 0.05}, {}):
                    with pytest.raises(grpc.RpcError) as caught:
                        Stub(channel).ModelInfer(null_message(timeout=20_000), **options)
                    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            until(lambda: under_way(running) == 1)
        assert first.result().status == 200
    # A client in a hurry says nothing of the device.
    assert running.server.models.served["null"].loads == 1


def test_clients_that_go_take_their_tasks_back(
    serve: Serve, slow: Slow, device: NullDevice
) -> None:
    running = serve(slow(0), max_queue_size=2)
    with grpc.insecure_channel(running.grpc) as channel, device.holding():
        stub = Stub(channel)
        first = stub.ModelInfer.future(null_message())
        until(lambda: under_way(running) == 1)
        for _ in range(4):
            waiting = stub.ModelInfer.future(null_message())
            until(lambda: under_way(running) == 2)
            waiting.cancel()
            until(lambda: under_way(running) == 1)
            body = b'{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,1,1,1],"data":[7]}]}'
            with socket.create_connection(("127.0.0.1", running.port)) as connection:
                connection.sendall(
                    b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%s"
                    % (INFER.encode(), len(body), body)
                )
                until(lambda: under_way(running) == 2)
            until(lambda: under_way(running) == 1)
        first.cancel()
    until(lambda: under_way(running) == 0)
    assert running.ask(INFER, NULL_REQUEST).status == 200
    assert 'code="CANCELLED"' in running.ask("/metrics").body.decode()


def test_the_end_finishes_what_was_accepted(serve: Serve, slow: Slow, device: NullDevice) -> None:
    running = serve(slow(0))
    with ThreadPoolExecutor(8) as pool, grpc.insecure_channel(running.grpc) as channel:
        with device.holding():
            asked = [pool.submit(running.ask, INFER, NULL_REQUEST) for _ in range(3)]
            called = [Stub(channel).ModelInfer.future(null_message()) for _ in range(3)]
            until(lambda: under_way(running) == 6)
            end = running.begin(running.server.stop())
            until(lambda: running.server._inference.is_draining)
            until(lambda: not accepts(running.port))
        assert [each.result().status for each in asked] == [200] * 3
        assert all(each.result().outputs[0].name == "y" for each in called)
    end.result(60)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def ask_add(running: Running) -> float:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
    answered = running.ask("/v2/models/add/infer", body)
    assert answered.status == 200, answered.body
    return float(answered.json["outputs"][0]["data"][0])


def test_a_changed_file_serves_and_no_request_is_lost(serve: Serve, tmp_path: Path) -> None:
    path = file_of(tmp_path, "add", models.add_one((1,)))
    running = serve(path, reload=0.05)
    other = file_of(tmp_path, "other", models.passes(models.FLOAT, (1,)))
    found, is_over = [], threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            found.append(ask_add(running))

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        until(lambda: found.count(2) > 3)
        os.replace(other, path)
        until(lambda: found[-1] == 1)
        # A file that is no model: the one before serves on.
        path.write_bytes(b"RKNN of nothing")
        seen = len(found)
        until(lambda: len(found) > seen + 20)
        is_over.set()
        for each in asking:
            each.result()
    assert set(found) == {1.0, 2.0}
    assert running.server.models.served["add"].loads == 2


def test_three_timeouts_in_a_row_open_the_model_anew(
    serve: Serve, add: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run@1=TIMEOUT rknn_run@2=TIMEOUT")
    running = serve(add)
    x = {"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5], "data": [0] * 60}
    served = running.server.models.served["add"]
    for _ in range(2):
        answered = running.ask("/v2/models/add/infer", {"inputs": [x]})
        assert answered.status == 504
        assert "RKNN_ERR_TIMEOUT" in answered.error
    assert running.ask("/v2/models/add/infer", {"inputs": [x]}).status == 200
    opened = served.current
    assert opened is not None
    assert (opened.timeouts, served.loads) == (0, 1)


def test_a_hung_device_is_opened_anew(serve: Serve, slow: Slow, device: NullDevice) -> None:
    running = serve(slow(0, 0, 0, 0), request_timeout=0.1)
    served = running.server.models.served["null"]
    with device.holding():
        for _ in range(3):
            assert running.ask(INFER, NULL_REQUEST).status == 504
        until(lambda: served.loads == 2)
        text = running.ask("/metrics").body.decode()
        assert 'anynpu_model_loads_total{model="null"} 2.0' in text
    until(lambda: running.ask(INFER, NULL_REQUEST).status == 200)
    assert running.ask("/v2/health/ready").status == 200


def test_models_that_share_weights_are_opened_anew_with_them(
    serve: Serve, add: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anynpu.serving.settings import ModelSettings

    faults = " ".join(f"rknn_run@{number}=TIMEOUT" for number in (1, 2, 3))
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", faults)
    sharer, unwanted = (
        ModelSettings(name, add, use_weight_from="add") for name in ("sharer", "unwanted")
    )
    running = serve(add, sharer, unwanted, admin=True)
    served = running.server.models.served
    assert running.ask("/v2/repository/models/unwanted/unload", b"").status == 200
    x = {"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5], "data": [0] * 60}
    for _ in range(3):
        assert running.ask("/v2/models/add/infer", {"inputs": [x]}).status == 504
    until(lambda: [each.loads for each in served.values()] == [2, 2, 1])
    assert running.ask("/v2/repository/models/add/load", b"").status == 200
    assert [each.loads for each in served.values()] == [3, 3, 1]
    for name in ("add", "sharer"):
        assert running.ask(f"/v2/models/{name}/infer", {"inputs": [x]}).status == 200


def test_weights_stay_as_long_as_a_model_shares_them(serve: Serve, add: Path) -> None:
    from anynpu import ClosedError
    from anynpu.serving.settings import ModelSettings

    sharer = ModelSettings("sharer", add, use_weight_from="add")
    running = serve(add, sharer, admin=True)
    opened = running.server.models.served["add"].current
    assert opened is not None
    assert running.ask("/v2/repository/models/add/unload", b"").status == 200
    x = np.zeros((1, 3, 4, 5), np.float32)
    message = {"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5], "data": [0] * 60}
    assert running.ask("/v2/models/sharer/infer", {"inputs": [message]}).status == 200
    assert opened.session.run(None, {"x": x})[0].max() == 1
    assert running.ask("/v2/repository/models/sharer/unload", b"").status == 200

    def is_closed() -> bool:
        try:
            opened.session.run(None, {"x": x})
        except ClosedError:
            return True
        return False

    until(is_closed)


def test_a_model_that_is_unloaded_stays_so_when_another_is_opened_anew(
    serve: Serve, add: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unloaded while it is being opened, and so is the model whose weights it shares."""
    from anynpu.serving.models import Models
    from anynpu.serving.settings import ModelSettings

    running = serve(add, ModelSettings("sharer", add, use_weight_from="add"))
    models_, opens, opening, goes_on = running.server.models, Models._session, *_events(2)

    def slowly(self: Models, settings: ModelSettings, weights: Any) -> Any:
        if settings.name == "sharer":
            opening.set()
            assert goes_on.wait(60)
        return opens(self, settings, weights)

    monkeypatch.setattr(Models, "_session", slowly)
    begun = [running.begin(models_.load("sharer"))]
    assert opening.wait(60)
    begun.append(running.begin(models_.unload("sharer")))
    begun.append(running.begin(models_.load("add")))
    until(lambda: models_.served["add"].loads == 2)
    goes_on.set()
    for each in begun:
        each.result(60)
    assert models_.served["sharer"].state == "UNAVAILABLE"
    assert models_.served["add"].state == "READY"
    assert models_.is_ready


def test_a_model_that_is_not_there_any_more_makes_the_server_unready(
    serve: Serve, slow: Slow, device: NullDevice
) -> None:
    settings = slow(0, 0, 0, 0)
    running = serve(settings, request_timeout=0.1, reload=0.1)
    whole = settings.path.read_bytes()
    settings.path.write_bytes(b"")
    with device.holding():
        for _ in range(3):
            assert running.ask(INFER, NULL_REQUEST).status == 504
    until(lambda: "timed out" not in running.server.models.served["null"].reason)
    assert running.server.models.served["null"].current is None
    assert running.ask("/v2/health/live").status == 200
    assert running.ask("/v2/health/ready").status == 503
    refused = running.ask(INFER, NULL_REQUEST)
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert "isn't ready" in refused.error
    settings.path.write_bytes(whole)
    until(lambda: running.ask("/v2/health/ready").status == 200)
    assert running.ask(INFER, NULL_REQUEST).status == 200


def test_a_device_that_hangs_for_ever_does_not_keep_the_command(slow: Slow) -> None:
    settings = slow(600_000)
    command = [sys.executable, "-m", "anynpu.cli", "serve", f"null={settings.path}"]
    command += ["--library", settings.options["library"], "--drain-timeout", "0.5"]
    command += ["--http", "", "--grpc", "127.0.0.1:0", "--request-timeout", "0.1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        address = process.stdout.readline().rpartition("grpc://")[2].strip()
        request = messages.ModelInferRequest(model_name="null")
        tensors.write_tensor(request, "x", np.zeros((1, 1, 1, 1), np.uint8))
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
            Stub(channel).ModelInfer(request, timeout=30)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        process.terminate()
        assert process.wait(60) == 1
        assert "doesn't end what it was given" in process.stderr.read()


def test_the_command_serves_and_ends_at_sigterm(add: Path) -> None:
    command = [sys.executable, "-m", "anynpu.cli", "serve", str(add), "--log", "json"]
    command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "add: RK3588, simulated" in process.stdout.readline()
        line = process.stdout.readline()
        assert line.startswith("serving on http://127.0.0.1:")
        address = line.rpartition("grpc://")[2].strip()
        with grpc.insecure_channel(address) as channel:
            assert Stub(channel).ServerReady(messages.ServerReadyRequest(), timeout=30).ready
        process.terminate()
        assert process.wait(60) == 0, process.stderr


def test_many_clients_at_once(serve: Serve, slow: Slow) -> None:
    running = serve(slow(1, 1, 1))

    async def ask_all() -> list[Any]:
        async with grpc.aio.insecure_channel(running.grpc) as channel:
            stub = Stub(channel)
            return await asyncio.gather(
                *(stub.ModelInfer(null_message(), timeout=30) for _ in range(32))
            )

    assert len(asyncio.run(ask_all())) == 32
