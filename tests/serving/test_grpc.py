"""The gRPC form, by gRPC and the protocol's own messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from anynpu.serving import tensors
from anynpu.serving.protocol import METHODS, Stub, messages

from .. import models
from .conftest import Running, Serve, file_of

X = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)


@pytest.fixture
def stub(serve: Serve, add: Path) -> Iterator[Any]:
    with grpc.insecure_channel(serve(add).grpc) as channel:
        yield Stub(channel)


def request_of(array: Any = X, name: str = "x", model: str = "add") -> Any:
    request = messages.ModelInferRequest(model_name=model, id="q")
    tensors.write_tensor(request, name, array)
    return request


def code_of(call: Any, request: Any, **options: Any) -> tuple[str, str]:
    """(code, details) of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=30, **options)
    return caught.value.code().name, caught.value.details()


def test_every_call_is_answered(stub: Any) -> None:
    """As the protocol has them; none is left to gRPC's own 'unimplemented'."""
    found = {}
    for method in METHODS.values():
        call = getattr(stub, method.name)
        answer = call.future(method.request(), timeout=30)
        found[method.name] = answer.code().name
    assert found.keys() == METHODS.keys()
    assert set(found.values()) == {"OK", "NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT"}


def test_raw_contents(stub: Any) -> None:
    answer = stub.ModelInfer(request_of(), timeout=30)
    assert (answer.model_name, answer.model_version, answer.id) == ("add", "1", "q")
    found = tensors.read_tensors(answer.outputs, answer.raw_output_contents)
    assert np.array_equal(found["y"], X + 1)


def test_typed_contents_are_answered_in_kind(stub: Any) -> None:
    request = messages.ModelInferRequest(model_name="add")
    sent = request.inputs.add(name="x", datatype="FP32", shape=X.shape)
    sent.contents.CopyFrom(tensors.to_contents(X))
    answer = stub.ModelInfer(request, timeout=30)
    assert not answer.raw_output_contents
    found = tensors.read_tensors(answer.outputs, [])
    assert np.array_equal(found["y"], X + 1)


@pytest.mark.parametrize("datatype", tensors.DATATYPES)
def test_datatypes_that_a_model_takes(serve: Serve, tmp_path: Path, datatype: str) -> None:
    """FLOAT16 models take whole numbers and halves as they take floats."""
    running = serve(file_of(tmp_path, "add", models.add_one((2, 3))))
    x = np.array([[0, 1, 1], [0, 1, 0]], tensors.DATATYPES[datatype])
    with grpc.insecure_channel(running.grpc) as channel:
        answer = Stub(channel).ModelInfer(request_of(x), timeout=30)
    (y,) = tensors.read_tensors(answer.outputs, answer.raw_output_contents).values()
    assert np.array_equal(y, x.astype(np.float32) + 1)


def test_mistakes_have_codes(stub: Any) -> None:
    infer = stub.ModelInfer
    assert code_of(infer, request_of(model="sub")) == (
        "NOT_FOUND", "there is no model 'sub'; there are add")  # fmt: skip
    code, details = code_of(infer, request_of(X[:, :, :2]))
    assert code == "INVALID_ARGUMENT"
    assert "takes the shape (1, 3, 4, 5)" in details
    cut = request_of()
    cut.raw_input_contents[0] = cut.raw_input_contents[0][:-1]
    assert code_of(infer, cut)[0] == "INVALID_ARGUMENT"
    both = request_of()
    both.inputs[0].contents.fp32_contents.append(1)
    assert "typed contents and raw ones" in code_of(infer, both)[1]
    old = request_of()
    old.model_version = "7"
    assert code_of(infer, old)[0] == "NOT_FOUND"
    load = messages.RepositoryModelLoadRequest(model_name="add")
    assert code_of(stub.RepositoryModelLoad, load)[0] == "PERMISSION_DENIED"
    assert code_of(stub.RepositoryIndex, messages.RepositoryIndexRequest())[0] == (
        "PERMISSION_DENIED"
    )


def test_too_large(serve: Serve, add: Path) -> None:
    running = serve(add, max_body=1000)
    with grpc.insecure_channel(running.grpc) as channel:
        large = request_of(np.zeros((1, 3, 40, 50), np.float32))
        assert code_of(Stub(channel).ModelInfer, large)[0] == "RESOURCE_EXHAUSTED"


def test_what_is_no_message(serve: Serve, add: Path) -> None:
    with grpc.insecure_channel(serve(add).grpc) as channel:
        call = channel.unary_unary(METHODS["ModelInfer"].path)
        assert code_of(call, b"\xff" * 50)[0] == "INVALID_ARGUMENT"
        unknown = channel.unary_unary("/inference.GRPCInferenceService/TraceSetting")
        assert code_of(unknown, b"")[0] == "UNIMPLEMENTED"


def test_a_second_server_does_not_share_the_port(serve: Serve, add: Path) -> None:
    running: Running = serve(add)
    with pytest.raises(OSError, match="can't be listened on"):
        serve(add, grpc=running.grpc, http="")
    with pytest.raises(OSError, match="can't be listened on"):
        serve(add, http=running.http, grpc="")
