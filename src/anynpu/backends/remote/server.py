"""One server: what its model is, and its answers to requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ModelError, ServerError, TensorError
from ...tensor import DType, Layout, TensorInfo
from ..addresses import Address
from .channel import grpc_module, metadata_of, open_channel
from .failures import of_answer, of_status
from .options import RemoteOptions

OURS = "anynpu"
"""What our own servers are called."""


@dataclass(frozen=True)
class ServedModel:
    """What a server says of a model; -1 in a shape is a size that requests choose.

    `takes_any_dtype`: inputs may come in other dtypes than its own, as a session takes them.
    """

    platform: str
    versions: tuple[str, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    cores: int | None
    takes_any_dtype: bool

    def difference(self, other: ServedModel) -> str:
        """What makes requests for one of them none for the other; empty for nothing."""
        for kind, ours, theirs in (
            ("inputs", self.inputs, other.inputs),
            ("outputs", self.outputs, other.outputs),
        ):
            if ours != theirs:
                return f"its {kind} are {_listed(theirs)}, not {_listed(ours)}"
        return ""


def fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    """Whether a shape is a declared one, in which -1 is any size."""
    return len(shape) == len(declared) and all(
        limit in (-1, size) for size, limit in zip(shape, declared, strict=True)
    )


class Server:
    """A connection to one server. Any thread may call any method."""

    def __init__(self, address: Address, options: RemoteOptions) -> None:
        self.address = address
        self._errors = grpc_module().RpcError
        from ...serving.protocol import Stub, messages

        self._messages = messages
        self._timeout = options.timeout_ms / 1000
        self._metadata = metadata_of(options)
        self._channel = open_channel(address, options)
        self._stub = Stub(self._channel)

    def infer(self, request: Any) -> Any:
        """The answer to a request's message, in which the model's name is filled in.

        Raises a `ServerError`.
        """
        request.model_name, request.model_version = self.address.model, self.address.version
        return self._call(self._stub.ModelInfer, request, self._timeout)

    def is_ready(self, timeout: float) -> bool:
        """Whether it would run the model now; raises a `ServerError` where it can't be asked."""
        asked = self._messages.ModelReadyRequest
        request = asked(name=self.address.model, version=self.address.version)
        return bool(self._call(self._stub.ModelReady, request, timeout).ready)

    def describe(self, timeout: float) -> ServedModel:
        """What its model is.

        Raises a `ServerError`, `ModelError` for tensors that a session here can't have.
        """
        asked = self._messages.ModelMetadataRequest
        request = asked(name=self.address.model, version=self.address.version)
        ask: Any = self._stub.ModelMetadata
        answer, call = self._call(ask.with_call, request, timeout)
        if not answer.inputs or not answer.outputs:
            raise of_answer(self.address, "its model has no inputs, or no outputs")
        return ServedModel(
            answer.platform,
            tuple(answer.versions),
            self._tensors(answer.inputs),
            self._tensors(answer.outputs),
            self._cores(dict(call.initial_metadata())),
            self._is_ours(timeout),
        )

    def _is_ours(self, timeout: float) -> bool:
        """Whether it is one of `anynpu serve`, which takes what a session takes."""
        request = self._messages.ServerMetadataRequest()
        try:
            return bool(self._call(self._stub.ServerMetadata, request, timeout).name == OURS)
        except ServerError as error:
            if error.code == "UNIMPLEMENTED":
                return False
            raise

    def _cores(self, metadata: Mapping[str, Any]) -> int | None:
        """How many requests the server says that it runs at once."""
        from ...serving.protocol import WORKERS_KEY

        text = str(metadata.get(WORKERS_KEY, ""))
        return int(text) if text.isdecimal() and int(text) > 0 else None

    def close(self) -> None:
        """Close the connection; calls that are under way end."""
        self._channel.close()

    def _call(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except self._errors as error:
            raise of_status(self.address, error) from None

    def _tensors(self, given: Sequence[Any]) -> tuple[TensorInfo, ...]:
        return tuple(self._tensor(index, tensor) for index, tensor in enumerate(given))

    def _tensor(self, index: int, tensor: Any) -> TensorInfo:
        from ...serving.tensors import dtype_of

        try:
            dtype = DType.from_numpy(dtype_of(tensor.datatype, tensor.name))
        except TensorError as error:
            raise ModelError(f"{self.address} can't be used here: {error}") from None
        assert dtype is not None, "the protocol's numbers are NumPy's"
        shape = tuple(int(size) for size in tensor.shape)
        return _info(index, tensor.name, shape, dtype)


def _info(index: int, name: str, shape: tuple[int, ...], dtype: DType) -> TensorInfo:
    elements = 1
    for size in shape:
        elements *= max(size, 1)
    size = dtype.size_of(elements)
    return TensorInfo(index, name, shape, dtype, Layout.UNDEFINED, None, size, size)


def _listed(infos: Sequence[TensorInfo]) -> str:
    return ", ".join(f"{info.name} {info.dtype.name.lower()} {info.shape}" for info in infos)
