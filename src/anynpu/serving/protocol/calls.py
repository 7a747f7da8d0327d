"""The protocol's calls, derived from its descriptor: what gRPC needs of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from . import open_inference_pb2

_SERVICE = open_inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVICE: str = _SERVICE.full_name
"""The service's name on the wire."""


WORKERS_KEY = "anynpu-workers"
"""Metadata that our servers send with ModelMetadata: how many requests for the model run at once.

The protocol's message has no place for it; clients that don't know it don't look.
"""


@dataclass(frozen=True)
class Method:
    """A call that takes one message and gives one."""

    name: str
    request: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        """The call's path on the wire."""
        return f"/{SERVICE}/{self.name}"


METHODS: dict[str, Method] = {
    method.name: Method(
        method.name,
        getattr(open_inference_pb2, method.input_type.name),
        getattr(open_inference_pb2, method.output_type.name),
    )
    for method in _SERVICE.methods
}
"""The protocol's calls by their names."""


class Stub:
    """The calls on a channel, each under its name; a channel of `grpc.aio` gives awaitable ones.

    stub.ModelInfer(request, timeout=5) as of gRPC's generated stubs, with `.future` beside.
    """

    def __init__(self, channel: Any) -> None:
        for method in METHODS.values():
            call = channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the protocol has no call {name!r}; it has {', '.join(METHODS)}")
