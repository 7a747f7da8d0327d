"""The protocol's gRPC form: the calls of `open_inference.proto`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from ..errors import TensorError
from . import metadata, tensors
from .access import Access
from .answers import answer_to
from .inference import Asked, Feed, Inference, Story
from .models import VERSION
from .protocol import METHODS, SERVICE, WORKERS_KEY, Method, messages
from .request_parameters import MOST_ID, refuse_classification, refuse_load_parameters, seconds_of
from .shared_memory import Place, Regions, place_of

Handler = Callable[[Any, Any], Awaitable[Message]]


class GrpcService:
    """Answers each of the protocol's calls; `handlers` is what a gRPC server takes."""

    def __init__(self, inference: Inference, regions: Regions, access: Access) -> None:
        self._inference, self._models = inference, inference.models
        self._regions, self._access = regions, access

    def handlers(self) -> Any:
        """The calls, for `grpc.aio.Server.add_generic_rpc_handlers`."""
        answers: dict[str, Handler] = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._about,
            "ModelMetadata": self._about_model,
            "ModelInfer": self._infer,
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
            "SystemSharedMemoryStatus": self._region_status,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
        }
        return grpc.method_handlers_generic_handler(
            SERVICE, {name: self._handler(METHODS[name], each) for name, each in answers.items()}
        )

    def _handler(self, method: Method, answer: Handler) -> Any:
        is_open = method.name in ("ServerLive", "ServerReady")

        async def handle(data: bytes, context: Any) -> Message:
            try:
                if not is_open:
                    self._access.check(_authorization(context))
                return await answer(_parsed(method, data), context)
            except Exception as error:
                kind, message = answer_to(error)
                await context.abort(grpc.StatusCode[kind.code], message)
                raise AssertionError("abort raises") from None

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=None,  # gRPC would log each message that is none
            response_serializer=method.response.SerializeToString,
        )

    # -------------------------------------------------------------------------------------- health

    async def _live(self, request: Any, context: Any) -> Message:
        return messages.ServerLiveResponse(live=True)

    async def _ready(self, request: Any, context: Any) -> Message:
        return messages.ServerReadyResponse(ready=self._inference.is_ready)

    async def _model_ready(self, request: Any, context: Any) -> Message:
        served = self._models.find(request.name, request.version)
        return messages.ModelReadyResponse(ready=served.current is not None)

    async def _about(self, request: Any, context: Any) -> Message:
        return messages.ServerMetadataResponse(
            **metadata.server(
                has_shared_memory=self._regions.is_allowed, has_admin=self._access.has_admin
            )
        )

    async def _about_model(self, request: Any, context: Any) -> Message:
        found = metadata.model(self._models, request.name, request.version)
        with self._models.lease(request.name, request.version) as opened:
            workers = opened.workers
        await context.send_initial_metadata(((WORKERS_KEY, str(workers)),))
        return messages.ModelMetadataResponse(**found)

    # ---------------------------------------------------------------------------------- repository

    async def _index(self, request: Any, context: Any) -> Message:
        self._access.check_admin()
        models = metadata.index(self._models, only_ready=request.ready)
        return messages.RepositoryIndexResponse(models=models)

    async def _load(self, request: Any, context: Any) -> Message:
        self._access.check_admin()
        refuse_load_parameters(request.parameters)
        await self._models.load(request.model_name)
        return messages.RepositoryModelLoadResponse()

    async def _unload(self, request: Any, context: Any) -> Message:
        self._access.check_admin()
        await self._models.unload(request.model_name)
        return messages.RepositoryModelUnloadResponse()

    # ------------------------------------------------------------------------------- shared memory

    async def _region_status(self, request: Any, context: Any) -> Message:
        response = messages.SystemSharedMemoryStatusResponse()
        for each in self._regions.status(request.name):
            status = response.regions[each.name]
            status.name, status.key = each.name, each.key
            status.offset, status.byte_size = each.offset, each.byte_size
        return response

    async def _register(self, request: Any, context: Any) -> Message:
        self._regions.register(request.name, request.key, request.offset, request.byte_size)
        return messages.SystemSharedMemoryRegisterResponse()

    async def _unregister(self, request: Any, context: Any) -> Message:
        self._regions.unregister(request.name)
        return messages.SystemSharedMemoryUnregisterResponse()

    # ----------------------------------------------------------------------------------- inference

    async def _infer(self, request: Any, context: Any) -> Message:
        story = Story("grpc", context.peer(), request.model_name, request.id[:MOST_ID])
        with self._inference.telling(story):
            self._models.find(request.model_name, request.model_version)
            asked = Asked(
                request.model_name,
                self._inputs(request),
                request.model_version,
                [output.name for output in request.outputs],
                seconds_of(_plain(request.parameters)),
            )
            places = _places(request)
            return self._response(request, await self._inference.run(asked), places)

    def _inputs(self, request: Any) -> Feed:
        """The inputs by name: those in shared memory have no raw contents."""
        raw = list(request.raw_input_contents)
        sent, found = [], Feed()
        for tensor in request.inputs:
            place = place_of(_plain(tensor.parameters), tensor.name) if tensor.parameters else None
            if place is None:
                sent.append(tensor)
            elif tensor.name in found:
                raise TensorError(f"tensor {tensor.name!r} is there twice")
            else:
                found[tensor.name] = self._regions.read(
                    tensor.name, tensor.datatype, tensor.shape, place
                )
        read = tensors.read_tensors(sent, raw)
        if twice := read.keys() & found.keys():
            raise TensorError(f"tensor {min(twice)!r} is there twice")
        return {**found, **read}

    def _response(self, request: Any, results: Feed, places: Mapping[str, Place]) -> Message:
        response = messages.ModelInferResponse(
            model_name=request.model_name,
            model_version=request.model_version or VERSION,
            id=request.id,
        )
        has_lists = (
            not request.raw_input_contents
            and any(each.HasField("contents") for each in request.inputs)
            and all(tensors.has_list(array.dtype) for array in results.values())
        )
        for name, array in results.items():
            if name in places:
                self._regions.write(name, array, places[name])
                _add_in_shared_memory(response, name, array, places[name])
            elif has_lists:
                _add_typed(response, name, array)
            else:
                tensors.write_tensor(response, name, array)
        return response


def _parsed(method: Method, data: bytes) -> Message:
    try:
        return method.request.FromString(data)
    except DecodeError:
        raise TensorError(f"the request is no message that {method.name} takes") from None


def _places(request: Any) -> dict[str, Place]:
    """Where outputs are to lie that aren't sent."""
    found = {}
    for output in request.outputs:
        parameters = _plain(output.parameters)
        refuse_classification(parameters)
        place = place_of(parameters, output.name)
        if place is not None:
            found[output.name] = place
    return found


def _add_in_shared_memory(response: Any, name: str, array: Any, place: Place) -> None:
    datatype = tensors.datatype_of(array.dtype)
    output = response.outputs.add(name=name, datatype=datatype, shape=array.shape)
    output.parameters["shared_memory_region"].string_param = place.region
    output.parameters["shared_memory_byte_size"].int64_param = array.nbytes
    output.parameters["shared_memory_offset"].int64_param = place.offset
    # Raw contents are one for each output.
    response.raw_output_contents.append(b"")


def _add_typed(response: Any, name: str, array: Any) -> None:
    datatype = tensors.datatype_of(array.dtype)
    output = response.outputs.add(name=name, datatype=datatype, shape=array.shape)
    output.contents.CopyFrom(tensors.to_contents(array))


def _plain(parameters: Any) -> dict[str, Any]:
    """A message's parameters as plain values."""
    found = {}
    for key, value in parameters.items():
        which = value.WhichOneof("parameter_choice")
        found[key] = getattr(value, which) if which else None
    return found


def _authorization(context: Any) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else None
    return None
