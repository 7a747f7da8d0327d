"""A server of the protocol that answers as a test says, well or badly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
import numpy as np
from numpy.typing import NDArray

from anynpu.serving.protocol import METHODS, SERVICE, WORKERS_KEY, messages
from anynpu.serving.tensors import datatype_of, read_tensors, write_tensor

SHAPE = (1, 3, 4, 4)
Infer = Callable[[dict[str, NDArray[Any]]], dict[str, NDArray[Any]]]


class Refusal(Exception):
    """Raised by a test's function: the server answers with this code and text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Answer(Exception):
    """Raised by a test's function: the server answers with this message."""

    def __init__(self, message: Any) -> None:
        super().__init__()
        self.message = message


def doubled(feed: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What the model computes where a test says nothing else."""
    return {"y": feed["x"].astype(np.float32) * 2}


class ScriptedServer:
    """A server on a port of 127.0.0.1 with the model ``m``, x to y, both `shape`.

    `infer` computes, or raises a `Refusal` or an `Answer`. `feeds` counts the requests, `tokens`
    has what came as authorization.
    """

    def __init__(
        self,
        infer: Infer = doubled,
        *,
        port: int = 0,
        cores: int | None = 2,
        dtype: type = np.float32,
        shape: Sequence[int] = SHAPE,
        name: str = "anynpu",
        credentials: Any = None,
    ) -> None:
        self.infer = infer
        self.cores, self.shape, self.name = cores, shape, name
        self.datatype = datatype_of(dtype)
        self.is_ready = True
        self.feeds = 0
        self.most_at_once = self._now = 0
        self.dtypes: set[str] = set()
        self.tokens: set[str] = set()
        self._lock = threading.Lock()
        self._credentials = credentials
        self.port = port or free_port()
        self.start()

    @property
    def address(self) -> str:
        scheme = "grpc" if self._credentials is None else "grpcs"
        return f"{scheme}://127.0.0.1:{self.port}/m"

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = grpc.server(
            ThreadPoolExecutor(16),
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 2**20)],
        )
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                getattr(self, f"_{name}"),
                request_deserializer=METHODS[name].request.FromString,
                response_serializer=_serialized,
            )
            for name in ("ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        place = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            bound = self._server.add_insecure_port(place)
        else:
            bound = self._server.add_secure_port(place, self._credentials)
        assert bound == self.port
        self._server.start()

    def stop(self) -> None:
        """Go away at once: calls under way end with an error."""
        self._server.stop(None).wait()

    # ------------------------------------------------------------------------------------ calls

    def _ModelReady(self, request: Any, context: Any) -> Any:
        return messages.ModelReadyResponse(ready=self.is_ready)

    def _ServerMetadata(self, request: Any, context: Any) -> Any:
        return messages.ServerMetadataResponse(name=self.name)

    def _ModelMetadata(self, request: Any, context: Any) -> Any:
        if request.name != "m":
            _abort(context, Refusal("NOT_FOUND", f"there is no model {request.name!r}"))
        if self.cores is not None:
            context.send_initial_metadata(((WORKERS_KEY, str(self.cores)),))
        answer = messages.ModelMetadataResponse(name="m", versions=["1"], platform="NPU")
        answer.inputs.add(name="x", datatype=self.datatype, shape=self.shape)
        answer.outputs.add(name="y", datatype="FP32", shape=self.shape)
        return answer

    def _ModelInfer(self, request: Any, context: Any) -> Any:
        with self._lock:
            self.feeds += 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self.dtypes |= {tensor.datatype for tensor in request.inputs}
            self.tokens |= {v for k, v in context.invocation_metadata() if k == "authorization"}
        try:
            results = self.infer(read_tensors(request.inputs, request.raw_input_contents))
        except Refusal as refusal:
            _abort(context, refusal)
        except Answer as answer:
            return answer.message
        finally:
            with self._lock:
                self._now -= 1
        answer_message = messages.ModelInferResponse(model_name=request.model_name)
        for name, array in results.items():
            write_tensor(answer_message, name, array)
        return answer_message


def _serialized(message: Any) -> bytes:
    """A message's bytes; bytes stay what they are, so that a test may send garbage."""
    data: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return data


def _abort(context: Any, refusal: Refusal) -> NoReturn:
    context.abort(grpc.StatusCode[refusal.code], str(refusal))
    raise AssertionError("abort raises")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
