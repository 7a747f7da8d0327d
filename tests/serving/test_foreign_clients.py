"""Clients that others wrote, unmodified: Triton's by both forms and shared memory, and curl."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .conftest import Running, Serve

X = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)
FORMS = ["http", "grpc"]


def client_of(form: str, running: Running) -> tuple[Any, Any]:
    """(Triton's module, a client)."""
    module = pytest.importorskip(f"tritonclient.{form}")
    address = running.http if form == "http" else running.grpc
    return module, module.InferenceServerClient(address)


@pytest.fixture(params=FORMS)
def triton(request: pytest.FixtureRequest, serve: Serve, add: Path) -> Iterator[tuple[Any, Any]]:
    """Triton's module and a client of it, at a server that requests may administer."""
    module, client = client_of(request.param, serve(add, admin=True))
    yield module, client
    client.close()


def plain(message: Any) -> Any:
    """A gRPC message, or JSON, as dicts."""
    if isinstance(message, (dict, list)):
        return message
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(message, preserving_proto_field_name=True)


@pytest.mark.filterwarnings("ignore")
def test_triton_s_client(triton: tuple[Any, Any]) -> None:
    module, client = triton
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("add")
    assert plain(client.get_server_metadata())["name"] == "anynpu"
    assert plain(client.get_model_metadata("add"))["inputs"][0]["name"] == "x"
    sent = module.InferInput("x", X.shape, "FP32")
    sent.set_data_from_numpy(X)
    result = client.infer("add", [sent], request_id="q", timeout=5_000_000)
    assert np.array_equal(result.as_numpy("y"), X + 1)
    assert plain(result.get_response())["id"] == "q"
    named = client.infer("add", [sent], outputs=[module.InferRequestedOutput("y")])
    assert np.array_equal(named.as_numpy("y"), X + 1)
    many = [client.async_infer("add", [sent]) for _ in range(4)] if module.__name__.endswith(
        "http") else []  # fmt: skip
    assert all(np.array_equal(each.get_result().as_numpy("y"), X + 1) for each in many)
    bfloat16 = module.InferInput("x", X.shape, "BF16")
    bfloat16.set_data_from_numpy(np.full(X.shape, 0.5, ml_dtypes.bfloat16))
    assert np.all(client.infer("add", [bfloat16]).as_numpy("y") == 1.5)
    wrong = module.InferInput("z", X.shape, "FP32")
    wrong.set_data_from_numpy(X)
    with pytest.raises(Exception, match="unknown \\['z'\\]"):
        client.infer("add", [wrong])


@pytest.mark.filterwarnings("ignore")
def test_triton_s_client_administers(triton: tuple[Any, Any]) -> None:
    _, client = triton
    client.unload_model("add")
    assert not client.is_model_ready("add")
    index = plain(client.get_model_repository_index())
    (found,) = index if isinstance(index, list) else index["models"]
    assert (found["name"], found["state"], found["reason"]) == ("add", "UNAVAILABLE", "unloaded")
    client.load_model("add")
    assert client.is_model_ready("add")
    with pytest.raises(Exception, match="no parameters"):
        client.load_model("add", config="{}")
    with pytest.raises(Exception, match="there is no"):
        client.load_model("../add")


@pytest.mark.filterwarnings("ignore")
def test_triton_s_shared_memory(triton: tuple[Any, Any]) -> None:
    module, client = triton
    shared = pytest.importorskip("tritonclient.utils.shared_memory")
    size = X.nbytes
    key = f"/anynpu_test_{module.__name__[-4:]}"
    segment = shared.create_shared_memory_region("both", key, 2 * size)
    try:
        shared.set_shared_memory_region(segment, [X])
        client.register_system_shared_memory("both", key, 2 * size)
        status = plain(client.get_system_shared_memory_status())
        assert json.dumps(status).count('"both"') >= 1
        sent = module.InferInput("x", X.shape, "FP32")
        sent.set_shared_memory("both", size)
        wanted = module.InferRequestedOutput("y")
        wanted.set_shared_memory("both", size, offset=size)
        result = client.infer("add", [sent], outputs=[wanted])
        assert plain(result.get_output("y"))["name"] == "y"
        there = shared.get_contents_as_numpy(segment, np.float32, [2, *X.shape[1:]])
        assert np.array_equal(there[1:], X + 1)
        assert np.array_equal(there[:1], X)
        client.unregister_system_shared_memory("both")
        with pytest.raises(Exception, match="register it first"):
            client.infer("add", [sent], outputs=[wanted])
    finally:
        shared.destroy_shared_memory_region(segment)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_triton_s_asyncio_client(serve: Serve, add: Path, form: str) -> None:
    running = serve(add)
    module = pytest.importorskip(f"tritonclient.{form}.aio")

    async def ask() -> list[Any]:
        address = running.http if form == "http" else running.grpc
        client = module.InferenceServerClient(address)
        sent = module.InferInput("x", X.shape, "FP32")
        sent.set_data_from_numpy(X)
        found = await asyncio.gather(*(client.infer("add", [sent]) for _ in range(8)))
        await client.close()
        return [each.as_numpy("y") for each in found]

    found = asyncio.run(ask())
    assert len(found) == 8
    assert all(np.array_equal(each, X + 1) for each in found)


@pytest.mark.parametrize("kind", ["json", "binary"])
def test_kserve_s_client(serve: Serve, add: Path, kind: str) -> None:
    """Where it is installed: it brings Kubernetes' client, pandas and a server."""
    if find_spec("kserve") is None:
        pytest.skip("kserve is not installed")
    running = serve(add)
    command = [sys.executable, "-m", "tests.serving.kserve_client"]
    done = subprocess.run(
        [*command, running.http, running.grpc, kind],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("both answered\n")


def test_curl(serve: Serve, add: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    address = serve(add).http
    body = json.dumps(
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": X.shape, "data": X.tolist()}]}
    )
    command = [curl, "-s", "--fail", f"http://{address}/v2/models/add/infer", "-d", body]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)["outputs"][0]["data"] == (X + 1).ravel().tolist()
