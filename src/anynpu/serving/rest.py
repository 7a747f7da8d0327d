"""The protocol's REST form, with binary tensors, the models' repository and shared memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import TensorError
from . import metadata, rest_bodies, tensors
from .access import Access
from .answers import Answer, Refusal, answer_to
from .inference import Asked, Feed, Inference, Story
from .metrics import CONTENT_TYPE, Metrics
from .models import VERSION
from .request_parameters import MOST_ID, refuse_classification, refuse_load_parameters, seconds_of
from .settings import ServeSettings
from .shared_memory import Place, Regions, place_of

_RETRY_AFTER = "1"
Handler = Callable[[Request], Awaitable[Response]]


class Bodies:
    """Reads requests' bodies: each as large as allowed and in time, all within one budget."""

    def __init__(self, settings: ServeSettings) -> None:
        self._most, self._seconds = settings.max_body, settings.body_timeout
        self._budget = 8 * settings.max_body

    @contextlib.asynccontextmanager
    async def reading(self, request: Request) -> AsyncIterator[bytes]:
        """The body for a block; `Refusal` for one that is too large or comes too slowly."""
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or len(declared) > 15 or int(declared) > self._most:
            raise self._too_large()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refusal(Answer.NOT_SUPPORTED, "bodies are taken uncompressed only")
        parts: list[bytes] = []
        try:
            await self._read_in_time(request, parts)
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self._budget += sum(map(len, parts))

    async def _read_in_time(self, request: Request, parts: list[bytes]) -> None:
        task = asyncio.current_task()
        assert task is not None, "requests are answered by tasks"
        is_late = False

        def expire() -> None:
            nonlocal is_late
            is_late = True
            task.cancel()

        timer = task.get_loop().call_later(self._seconds, expire)
        try:
            await self._read(request, parts)
        except asyncio.CancelledError:
            if not is_late:
                raise
            raise Refusal(
                Answer.SLOW_BODY, f"the body didn't come within {self._seconds:g} s"
            ) from None
        except ClientDisconnect:
            raise _client_gone() from None
        finally:
            timer.cancel()

    async def _read(self, request: Request, parts: list[bytes]) -> None:
        size = 0
        async for part in request.stream():
            size += len(part)
            self._budget -= len(part)
            parts.append(part)
            if size > self._most:
                raise self._too_large()
            if self._budget < 0:
                raise Refusal(Answer.FULL, "too many large requests are under way")

    def _too_large(self) -> Refusal:
        return Refusal(Answer.TOO_LARGE, f"a request may have at most {self._most} bytes")


class RestServer:
    """The application that answers the REST form's requests."""

    def __init__(
        self,
        inference: Inference,
        regions: Regions,
        access: Access,
        metrics: Metrics,
        settings: ServeSettings,
    ) -> None:
        self._inference, self._models = inference, inference.models
        self._regions, self._access, self._metrics = regions, access, metrics
        self._bodies = Bodies(settings)

    def application(self) -> Starlette:
        """For an ASGI server."""
        return Starlette(
            routes=[self._route(*each) for each in self._routes()],
            exception_handlers={HTTPException: _no_such_page},
        )

    def _routes(self) -> list[tuple[str, str, Handler, bool]]:
        """(path, method, who answers, whether without a token)."""
        named = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
        # They are looked through in this order.
        routes: list[tuple[str, str, Handler, bool]] = [
            *((f"{path}/infer", "POST", self._infer, False) for path in named),
            ("/v2/health/live", "GET", self._live, True),
            ("/v2/health/ready", "GET", self._ready, True),
            ("/v2", "GET", self._about, False),
            ("/metrics", "GET", self._count, False),
            ("/v2/repository/index", "POST", self._index, False),
            ("/v2/repository/models/{model}/load", "POST", self._load, False),
            ("/v2/repository/models/{model}/unload", "POST", self._unload, False),
            ("/v2/systemsharedmemory/status", "GET", self._region_status, False),
            ("/v2/systemsharedmemory/unregister", "POST", self._unregister, False),
            ("/v2/systemsharedmemory/region/{region}/status", "GET", self._region_status, False),
            ("/v2/systemsharedmemory/region/{region}/register", "POST", self._register, False),
            ("/v2/systemsharedmemory/region/{region}/unregister", "POST", self._unregister, False),
        ]
        for path in named:
            routes += [
                (path, "GET", self._about_model, False),
                (f"{path}/ready", "GET", self._model_ready, False),
            ]
        return routes

    def _route(self, path: str, method: str, handler: Handler, is_open: bool) -> Route:
        async def answer(request: Request) -> Response:
            try:
                if not is_open:
                    self._access.check(request.headers.get("authorization"))
                    self._access.check_origin(request.headers.get("origin"))
                return await handler(request)
            except Exception as error:
                return _error(*answer_to(error))

        return Route(path, answer, methods=[method])

    # -------------------------------------------------------------------------------------- health

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, request: Request) -> Response:
        is_ready = self._inference.is_ready
        status = 200 if is_ready else Answer.UNAVAILABLE.status
        return JSONResponse({"ready": is_ready}, status)

    async def _model_ready(self, request: Request) -> Response:
        model, version = _model_of(request)
        with self._models.lease(model, version):
            return JSONResponse({"name": model, "ready": True})

    async def _about(self, request: Request) -> Response:
        return JSONResponse(
            metadata.server(
                has_shared_memory=self._regions.is_allowed, has_admin=self._access.has_admin
            )
        )

    async def _about_model(self, request: Request) -> Response:
        return JSONResponse(metadata.model(self._models, *_model_of(request)))

    async def _count(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    # ---------------------------------------------------------------------------------- repository

    async def _index(self, request: Request) -> Response:
        self._access.check_admin()
        body = await self._json(request)
        return JSONResponse(metadata.index(self._models, only_ready=body.get("ready") is True))

    async def _load(self, request: Request) -> Response:
        self._access.check_admin()
        refuse_load_parameters(rest_bodies.parameters(await self._json(request)))
        await self._models.load(request.path_params["model"])
        return Response()

    async def _unload(self, request: Request) -> Response:
        self._access.check_admin()
        await self._json(request)
        await self._models.unload(request.path_params["model"])
        return Response()

    async def _json(self, request: Request) -> dict[str, Any]:
        async with self._bodies.reading(request) as body:
            return rest_bodies.split_body(body, None)[0] if body else {}

    # ------------------------------------------------------------------------------- shared memory

    async def _region_status(self, request: Request) -> Response:
        found = self._regions.status(request.path_params.get("region", ""))
        return JSONResponse(
            [
                {
                    "name": each.name,
                    "key": each.key,
                    "offset": each.offset,
                    "byte_size": each.byte_size,
                }
                for each in found
            ]
        )

    async def _register(self, request: Request) -> Response:
        body = await self._json(request)
        key, offset, size = body.get("key"), body.get("offset", 0), body.get("byte_size")
        place = place_of(
            {
                "shared_memory_region": key,
                "shared_memory_offset": offset,
                "shared_memory_byte_size": size,
            },
            request.path_params["region"],
        )
        if place is None:
            raise TensorError("a region takes the key of a segment, an offset and a byte_size")
        self._regions.register(
            request.path_params["region"], place.region, place.offset, place.size
        )
        return Response()

    async def _unregister(self, request: Request) -> Response:
        self._regions.unregister(request.path_params.get("region", ""))
        return Response()

    # ----------------------------------------------------------------------------------- inference

    async def _infer(self, request: Request) -> Response:
        model, version = _model_of(request)
        story = Story("rest", request.client.host if request.client else "", model)
        with self._inference.telling(story):
            self._models.find(model, version)
            async with self._bodies.reading(request) as body:
                header, data = rest_bodies.split_body(
                    body, request.headers.get(rest_bodies.JSON_LENGTH)
                )
                asked = _Body(header, data, self._regions)
                story.request_id = asked.request_id
                results = await _unless_gone(
                    request, self._inference.run(asked.asked(model, version))
                )
                return asked.response(model, version or VERSION, results)


class _Body:
    """A request's JSON, and how its answer is to look."""

    def __init__(self, header: dict[str, Any], data: memoryview, regions: Regions) -> None:
        self._regions = regions
        self._parameters = rest_bodies.parameters(header)
        identifier = header.get("id")
        if identifier is not None and not isinstance(identifier, str):
            raise TensorError("'id' takes a text")
        self.request_id = (identifier or "")[:MOST_ID]
        self._id = identifier
        self._outputs = rest_bodies.objects(header, "outputs")
        self._is_binary = self._parameters.get("binary_data_output") is True
        inputs = rest_bodies.objects(header, "inputs")
        self.inputs = rest_bodies.read_tensors(inputs, data, self._in_region)

    def _in_region(self, tensor: Mapping[str, Any]) -> NDArray[Any] | None:
        name = rest_bodies.name_of(tensor)
        place = place_of(rest_bodies.parameters(tensor), name)
        if place is None:
            return None
        tensors.stored_dtype_of(tensor.get("datatype"), name)
        shape = tensors.shape_of(tensor.get("shape"), name)
        return self._regions.read(name, tensor["datatype"], shape, place)

    def asked(self, model: str, version: str) -> Asked:
        """What is asked of a model; `TensorError` for what can't be done."""
        names = [rest_bodies.name_of(each) for each in self._outputs]
        for each in self._outputs:
            refuse_classification(rest_bodies.parameters(each))
        return Asked(model, self.inputs, version, names, seconds_of(self._parameters))

    def response(self, model: str, version: str, results: Feed) -> Response:
        """The answer, with its outputs where the request wants them."""
        wanted = {each["name"]: rest_bodies.parameters(each) for each in self._outputs}
        described, binary = [], []
        for name, array in results.items():
            parameters = wanted.get(name, {})
            place = place_of(parameters, name)
            if place is not None:
                self._regions.write(name, array, place)
                described.append(_in_shared_memory(name, array, place))
                continue
            is_binary = parameters.get("binary_data", self._is_binary) is True
            described.append(rest_bodies.describe(name, array, is_binary=is_binary))
            if is_binary:
                binary.append(tensors.to_bytes(array))
        content: dict[str, Any] = {"model_name": model, "model_version": version}
        if self._id is not None:
            content["id"] = self._id
        content["outputs"] = described
        body, length = rest_bodies.join_body(content, binary)
        if not binary:
            return Response(body, media_type="application/json")
        return Response(
            body,
            headers={rest_bodies.JSON_LENGTH: str(length)},
            media_type="application/octet-stream",
        )


def _in_shared_memory(name: str, array: NDArray[Any], place: Place) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": tensors.datatype_of(array.dtype),
        "shape": list(array.shape),
        "parameters": {
            "shared_memory_region": place.region,
            "shared_memory_byte_size": array.nbytes,
            "shared_memory_offset": place.offset,
        },
    }


def _model_of(request: Request) -> tuple[str, str]:
    return request.path_params["model"], request.path_params.get("version", "")


async def _unless_gone(request: Request, work: Any) -> Feed:
    """What a coroutine gives; a client that goes meanwhile ends it."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    gone.add_done_callback(lambda _: task.cancel())
    try:
        results: Feed = await task
        return results
    except asyncio.CancelledError:
        if gone.done():
            raise _client_gone() from None
        raise
    finally:
        gone.cancel()
        task.cancel()


def _client_gone() -> Refusal:
    return Refusal(Answer.GONE, "the client has gone")


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = Answer.NO_METHOD if error.status_code == Answer.NO_METHOD.status else Answer.NOT_FOUND
    return _error(answer, f"there is no {request.method} {request.url.path[:100]}")


def _error(answer: Answer, message: str) -> Response:
    headers = {}
    if answer.may_be_repeated:
        headers["retry-after"] = _RETRY_AFTER
    if answer is Answer.UNKNOWN_CALLER:
        headers["www-authenticate"] = "Bearer"
    if answer in (Answer.TOO_LARGE, Answer.SLOW_BODY, Answer.NOT_SUPPORTED):
        headers["connection"] = "close"  # the rest of the body isn't waited for
    return JSONResponse({"error": message}, answer.status, headers)
