"""The protocol's messages: as its other speakers have them, and as the file beside them says."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2

from anynpu.serving import protocol
from anynpu.serving.protocol import generate, messages

Fields = dict[str, tuple[int, int, int, str]]


def described(file: descriptor_pb2.FileDescriptorProto) -> tuple[dict[str, Fields], dict[str, str]]:
    """Each message's fields (number, label, type, type's name), and each call's messages."""
    found: dict[str, Fields] = {}

    def add(message: descriptor_pb2.DescriptorProto, within: str) -> None:
        name = f"{within}.{message.name}"
        found[name] = {
            field.name: (field.number, field.label, field.type, field.type_name)
            for field in message.field
        }
        for nested in message.nested_type:
            add(nested, name)

    for message in file.message_type:
        add(message, f".{file.package}")
    calls = {
        method.name: f"{method.input_type} {method.output_type}"
        for service in file.service
        for method in service.method
    }
    return found, calls


def file_of(module: object) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)  # type: ignore[attr-defined]
    return file


def test_names_and_numbers_are_those_of_tritons_client() -> None:
    """Which is in one process with ours here: neither is in the other's way."""
    service_pb2 = pytest.importorskip("tritonclient.grpc").service_pb2
    ours, our_calls = described(file_of(messages))
    theirs, their_calls = described(file_of(service_pb2))
    assert len(ours) > 30
    assert ours == {name: theirs[name] for name in ours}
    assert our_calls == {name: their_calls[name] for name in our_calls}
    assert protocol.SERVICE == "inference.GRPCInferenceService"


def test_the_generated_file_is_what_the_protocols_file_says() -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    folder = Path(generate.__file__).parent
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "set")
        assert not protoc.main(
            ["protoc", f"-I{folder}", f"--descriptor_set_out={path}", generate.PROTO]
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
    assert described(files[0]) == described(file_of(messages))


def test_a_generated_file_works_with_any_release_and_in_its_own_pool() -> None:
    pytest.importorskip("grpc_tools.protoc")
    text = generate.generate()["open_inference_pb2.py"]
    assert "DescriptorPool()" in text
    assert "Default().Add" not in text
    assert "ValidateProtobufRuntimeVersion" not in text


def test_the_messages_need_no_server() -> None:
    """What a client imports is neither a web server nor a session."""
    program = (
        "import sys; import anynpu.serving.tensors, anynpu.serving.protocol\n"
        "print(*{'starlette', 'uvicorn', 'grpc', 'zmq', 'anynpu.session'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""
