"""A remote model behind a session's workers: as many as the servers have seats."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

from ... import process
from ...errors import AnynpuError, ModelError, OptionError, ServerError, StateError
from ...native.pump import MAX_WORKERS, Slot, Step
from ...tensor import DType
from ..addresses import Address
from ..base import Binding, DeviceBuffer, Network, Request, Shapes
from .fleet import Fleet, Place
from .options import RemoteOptions
from .request import NUMBER, RemoteRequest
from .server import ServedModel, Server, fits

_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t)
_FAILED = 1
_CORES = 1
"""What a server is taken to have that doesn't say."""


class RemoteNetwork(Network):
    """A model on servers. A worker's only step asks one of them, and waits for the answer."""

    def __init__(self, addresses: Sequence[Address], options: RemoteOptions) -> None:
        self._options = options
        self._addresses = tuple(addresses)
        servers = _connect(addresses, options)
        try:
            self._model, places = _described(servers, options)
            self.worker_cores: tuple[int | None, ...] = (None,) * _workers(places)
            self._fleet = Fleet(places, self._model, options)
        except BaseException:
            for server in servers:
                server.close()
            raise
        self.inputs, self.outputs = self._model.inputs, self._model.outputs
        self.takes_any_dtype = self._model.takes_any_dtype
        self._requests: weakref.WeakValueDictionary[int, RemoteRequest]
        self._requests = weakref.WeakValueDictionary()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._call = _CALL(self._run)
        self._is_closed = False
        self._process = os.getpid()
        _alive.add(self)

    @property
    def library(self) -> NoReturn:  # type: ignore[override] # there is none on this machine
        raise OptionError(
            "a remote model has no runtime library on this machine; get_modelmeta says what the "
            "server runs"
        )

    @property
    def keeps_main_thread_free(self) -> bool:
        return True

    @property
    def shape_sets(self) -> tuple[Shapes, ...]:
        return _ShapeSets((tuple(info.shape for info in self.inputs),))

    # ------------------------------------------------------------------------------------ requests

    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        address = ctypes.cast(self._call, ctypes.c_void_p).value
        assert address is not None, "a callback has an address"
        return [Step("infer", address, (Slot(NUMBER),))]

    def new_request(self) -> Request:
        number = next(self._numbers)
        request = RemoteRequest(self, number)
        with self._lock:
            self._requests[number] = request
        return request

    def _run(self, number: int) -> int:
        """A worker's step; what goes wrong waits in the request for `error`."""
        with self._lock:
            request = self._requests[number]
        try:
            self._fleet.run(request.run)
        except AnynpuError as error:
            request.failure = error
        except BaseException as error:
            # Above is C.
            failure = StateError(f"the request could not be made: {type(error).__name__}: {error}")
            failure.__cause__ = error
            request.failure = failure
        return 0 if request.failure is None else _FAILED

    def error(self, request: Request, step: Step, code: int) -> AnynpuError:
        assert isinstance(request, RemoteRequest)
        return request.failure or StateError(f"{step.name} ended with {code}")

    # ------------------------------------------------------------------------------------ rest

    def metadata(self) -> dict[str, str]:
        return {
            "servers": ",".join(map(str, self._addresses)),
            "platform": self._model.platform,
            "versions": ",".join(self._model.versions),
        }

    def allocate(
        self, kind: str, index: int, dtype: DType | None, flags: str | int | None
    ) -> DeviceBuffer:
        _refuse("memory of the device's, such as an OrtValue on it")

    def import_buffer(
        self, kind: str, index: int, dtype: DType | None, fd: int, size: int, offset: int
    ) -> DeviceBuffer:
        _refuse("a DMA buffer")

    def new_binding(self) -> Binding:
        _refuse("io_binding")

    def close(self) -> None:
        # In a forked process the connections' threads are missing.
        if self._process == os.getpid() and not self._is_closed:
            self._is_closed = True
            self._fleet.close()


class _ShapeSets(tuple[Shapes, ...]):
    """The sets of input shapes, in which -1 is any size."""

    __slots__ = ()

    def __contains__(self, shapes: object) -> bool:
        assert isinstance(shapes, tuple)
        return any(
            len(shapes) == len(declared) and all(map(fits, shapes, declared)) for declared in self
        )


def _refuse(what: str) -> NoReturn:
    raise OptionError(
        f"{what} is memory of one machine, and this model runs on others: pass arrays to run, or "
        f"open the model where its NPU is"
    )


def _connect(addresses: Sequence[Address], options: RemoteOptions) -> list[Server]:
    servers: list[Server] = []
    try:
        servers.extend(Server(address, options) for address in addresses)
    except BaseException:
        for server in servers:
            server.close()
        raise
    return servers


def _described(
    servers: Sequence[Server], options: RemoteOptions
) -> tuple[ServedModel, list[Place]]:
    """The model that all servers have, and a place for each; one that doesn't answer rests.

    Raises where none answers, and `ModelError` where they have different models.
    """
    answers = list(_ask_all(servers, options.connect_timeout_ms / 1000))
    models = [answer for answer in answers if isinstance(answer, ServedModel)]
    if not models:
        raise next(answer for answer in answers if isinstance(answer, ServerError))
    places = []
    for number, (server, answer) in enumerate(zip(servers, answers, strict=True)):
        told = answer.cores if isinstance(answer, ServedModel) else models[0].cores
        place = Place(server, _cores(number, told, len(servers), options), options.requests_ahead)
        if isinstance(answer, ServedModel):
            if difference := models[0].difference(answer):
                raise ModelError(
                    f"the servers have different models: at {server.address} {difference}"
                )
        else:
            place.begin_rest(answer, 0.0)
        places.append(place)
    return models[0], places


def _ask_all(servers: Sequence[Server], timeout: float) -> Iterator[ServedModel | ServerError]:
    """What each server says of its model, or why it doesn't; all are asked at the same time."""

    def ask(server: Server) -> ServedModel | ServerError:
        try:
            return server.describe(timeout)
        except ServerError as error:
            return error

    with ThreadPoolExecutor(len(servers), "anynpu servers") as pool:
        yield from pool.map(ask, servers)


def _cores(number: int, told: int | None, servers: int, options: RemoteOptions) -> int:
    if options.cores is None:
        return told or _CORES
    if len(options.cores) not in (1, servers):
        raise OptionError(
            f"cores has {len(options.cores)} numbers for {servers} servers: give one for each, or "
            f"one for all"
        )
    return options.cores[number] if len(options.cores) > 1 else options.cores[0]


def _workers(places: Sequence[Place]) -> int:
    seats = sum(place.seats for place in places)
    if seats > MAX_WORKERS:
        raise OptionError(
            f"{len(places)} servers take {seats} requests at once, and a session makes "
            f"{MAX_WORKERS} at most: lower cores or requests_ahead, open several sessions, or put "
            f"a balancer before the servers"
        )
    return seats


_alive: weakref.WeakSet[RemoteNetwork] = weakref.WeakSet()


def _after_fork() -> None:
    # Connections have threads, which a fork hasn't: taking them apart would wait for those.
    for network in _alive:
        process.keep_for_ever(network)


process.in_child(_after_fork)
