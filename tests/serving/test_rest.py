"""The REST form, by plain HTTP."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu

from .. import models
from .conftest import Running, Serve, file_of

X = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)


def tensor(array: Any = X, name: str = "x", datatype: str = "FP32") -> dict[str, Any]:
    return {
        "name": name,
        "datatype": datatype,
        "shape": list(array.shape),
        "data": array.ravel().tolist(),
    }


@pytest.fixture
def running(serve: Serve, add: Path) -> Running:
    return serve(add)


def test_health(running: Running) -> None:
    """By the status, and as KServe's client reads it, by the body."""
    assert running.ask("/v2/health/live").json == {"live": True}
    assert running.ask("/v2/health/ready").json == {"ready": True}
    for path in ("models/add/ready", "models/add/versions/1/ready"):
        answered = running.ask(f"/v2/{path}")
        assert (answered.status, answered.json) == (200, {"name": "add", "ready": True})
    assert running.ask("/v2/models/sub/ready").status == 404


def test_what_it_says_of_itself(running: Running) -> None:
    about = running.ask("/v2").json
    assert about["name"] == "anynpu"
    assert about["version"] == anynpu.__version__
    assert about["extensions"] == ["binary_tensor_data", "system_shared_memory"]
    assert running.ask("/v2/models/add/versions/1").json == {
        "name": "add",
        "versions": ["1"],
        "platform": "RKNPU2ExecutionProvider",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3, 4, 5]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 3, 4, 5]}],
    }


def test_json(running: Running) -> None:
    answered = running.ask("/v2/models/add/infer", {"id": "a", "inputs": [tensor()]}).json
    assert (answered["model_name"], answered["model_version"], answered["id"]) == ("add", "1", "a")
    (output,) = answered["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [1, 3, 4, 5])
    assert output["data"] == (X + 1).ravel().tolist()
    nested = {**tensor(), "data": X.tolist()}
    answered = running.ask("/v2/models/add/versions/1/infer", {"inputs": [nested]}).json
    assert answered["outputs"] == [output]
    assert "id" not in answered


@pytest.mark.parametrize("is_aligned", [True, False])
def test_binary(running: Running, is_aligned: bool) -> None:
    described = {**tensor(), "parameters": {"binary_data_size": X.nbytes}}
    del described["data"]
    text = json.dumps({"inputs": [described], "parameters": {"binary_data_output": True}})
    text += " " * ((-len(text)) % 8 + (0 if is_aligned else 1))
    headers = {"Inference-Header-Content-Length": str(len(text))}
    answered = running.ask("/v2/models/add/infer", text.encode() + X.tobytes(), headers)
    length = int(answered.headers["Inference-Header-Content-Length"])
    (output,) = json.loads(answered.body[:length])["outputs"]
    assert output["parameters"] == {"binary_data_size": X.nbytes}
    assert np.array_equal(np.frombuffer(answered.body[length:], np.float32), (X + 1).ravel())


def test_outputs_as_they_are_asked_for(serve: Serve, tmp_path: Path) -> None:
    running = serve(file_of(tmp_path, "two", models.two_outputs()))
    x = np.array([[1, -2]], np.float32)
    asked = [{"name": "z", "parameters": {"binary_data": True}}, {"name": "y"}]
    answered = running.ask("/v2/models/two/infer", {"inputs": [tensor(x)], "outputs": asked})
    length = int(answered.headers["Inference-Header-Content-Length"])
    z, y = json.loads(answered.body[:length])["outputs"]
    assert (z["name"], y["name"], y["data"]) == ("z", "y", [-1, 2])
    assert np.array_equal(np.frombuffer(answered.body[length:], np.float32), [1, 2])


def test_a_larger_batch_is_divided(serve: Serve, tmp_path: Path) -> None:
    running = serve(file_of(tmp_path, "add", models.add_one((2, 3, 4, 5))), max_queue_size=1)
    for samples in (2, 3, 41):
        x = np.arange(samples * 60, dtype=np.float32).reshape(samples, 3, 4, 5) % 512
        (output,) = running.ask("/v2/models/add/infer", {"inputs": [tensor(x)]}).json["outputs"]
        assert output["shape"] == list(x.shape)
        assert np.array_equal(np.float32(output["data"]), (x + 1).ravel())


def test_open_sizes(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    path.write_bytes(models.add_one((1, 3, "height", "width")))
    running = serve(path)
    about = running.ask("/v2/models/open").json
    assert about["inputs"][0]["shape"] == [1, 3, -1, -1]
    for size in (2, 4):
        x = np.ones((1, 3, size, size), np.float32)
        (output,) = running.ask("/v2/models/open/infer", {"inputs": [tensor(x)]}).json["outputs"]
        assert set(output["data"]) == {2.0}


def test_weights_are_shared_in_whatever_order_models_are_named(serve: Serve, add: Path) -> None:
    from anynpu.serving.settings import ModelSettings

    running = serve(ModelSettings("second", add, use_weight_from="add"), add)
    answered = running.ask("/v2/models/second/infer", {"inputs": [tensor()]})
    assert answered.json["outputs"][0]["data"] == (X + 1).ravel().tolist()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"inputs": [tensor(name="z")]}, 400, "missing ['x'], unknown ['z']"),
        ({"inputs": []}, 400, "missing ['x']"),
        ({}, 400, "missing ['x']"),
        ({"inputs": [tensor(), tensor()]}, 400, "twice"),
        ({"inputs": [tensor(X[:, :, :2])]}, 400, "takes the shape (1, 3, 4, 5); found"),
        ({"inputs": [tensor(datatype="BYTES")]}, 400, "strings"),
        ({"inputs": [tensor()], "outputs": [{"name": "w"}]}, 400, "no outputs ['w']"),
        ({"inputs": [tensor()], "outputs": [{"name": "y"}] * 2}, 400, "asked for twice"),
        ({"inputs": [tensor()], "outputs": [{"name": "y", "parameters": {"classification": 3}}]},
         400, "classification"),
        ({"inputs": [tensor()], "id": 3}, 400, "'id' takes a text"),
        ({"inputs": [tensor()], "parameters": {"timeout": "soon"}}, 400, "microseconds"),
        (b"nothing", 400, "isn't JSON"),
        (b"", 400, "isn't JSON"),
    ],
)  # fmt: skip
def test_mistakes_are_said(running: Running, body: Any, status: int, message: str) -> None:
    answered = running.ask("/v2/models/add/infer", body)
    assert answered.status == status
    assert message in answered.error


def test_what_is_not_there(running: Running) -> None:
    assert "there are add" in running.ask("/v2/models/sub/infer", {}).error
    for path in ("/v2/models/add/versions/2", "/v2/models/add/none", "/", "/v2/models/a%2Fb"):
        assert running.ask(path).status == 404
    assert running.ask("/v2/models/add/infer").status == 405
    assert running.ask("/v2", {}).status == 405
    # The generated pages of a web framework would be something else that listens.
    assert running.ask("/docs").status == 404


def test_too_large(serve: Serve, add: Path) -> None:
    running = serve(add, max_body=1000)
    answered = running.ask("/v2/models/add/infer", bytes(1001))
    assert (answered.status, answered.headers["connection"]) == (413, "close")
    # Without a length that could be known before.
    chunks = {"transfer-encoding": "chunked"}
    body = b"3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n"
    assert running.ask("/v2/models/add/infer", body, chunks).status == 413
    assert running.ask("/v2/models/add/infer", b"x", {"content-encoding": "gzip"}).status == 415


def test_answers_do_not_wait_for_each_other_s_pieces(running: Running) -> None:
    """Nagle's algorithm is off for connections: a head and its body are sent at once."""

    async def delays() -> set[int]:
        (http,) = running.server._http.server_state.connections  # type: ignore[union-attr]
        found = http.transport.get_extra_info("socket")
        return {found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)}

    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert running.wait_for(delays()) == {1}


def test_metrics_are_prometheus_text(running: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    running.ask("/v2/models/add/infer", {"inputs": [tensor()]})
    running.ask("/v2/models/add/infer", {})
    running.ask("/v2/models/made-up/infer", {})
    answered = running.ask("/metrics")
    families = {
        family.name: family for family in text_string_to_metric_families(answered.body.decode())
    }
    codes = {
        (sample.labels["model"], sample.labels["code"]): sample.value
        for sample in families["anynpu_requests"].samples
        if sample.name.endswith("_total")
    }
    assert codes == {("add", "OK"): 1, ("add", "INVALID_ARGUMENT"): 1, ("", "NOT_FOUND"): 1}
    values = {
        (sample.name, sample.labels.get("model")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["anynpu_request_seconds_count", "add"] == 1
    assert values["anynpu_queue_seconds_count", "add"] == 1
    assert values["anynpu_core_busy_seconds_total", "add"] > 0
    assert values["anynpu_model_ready", "add"] == 1
    assert values["anynpu_model_loads_total", "add"] == 1
    assert values["anynpu_tasks_waiting", "add"] == values["anynpu_tasks_running", "add"] == 0
    assert values["anynpu_workers", "add"] >= 1
    assert values["process_resident_memory_bytes", None] > 0
