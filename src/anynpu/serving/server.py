"""A server: its models, and the forms of the protocol that it listens for."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import uvicorn

from ..errors import OptionError
from . import access, http_connections, request_log
from .grpc_form import GrpcService
from .inference import Inference
from .metrics import Metrics
from .models import Models
from .rest import RestServer
from .settings import ServeSettings, split_address
from .shared_memory import Regions

_BACKLOG = 1024
_KEEP_ALIVE = 30
_MOST_PENDING = 3_000
"""Calls that have come and that nobody has looked at yet."""
_FILES_BESIDES = 200
"""Descriptors that models, libraries and gRPC's connections may take."""


class Server:
    """Serves the models of some settings from `start` to `stop`, on the running event loop.

    `addresses` says where it listens: by ``http``, ``grpc`` and ``zmq``, with the ports that port 0
    became.
    """

    def __init__(self, settings: ServeSettings) -> None:
        if not settings.models:
            raise OptionError("there is no model to serve: name one")
        self.settings = settings
        self.addresses: dict[str, str] = {}
        self._metrics = Metrics()
        self.models = Models(
            settings.models, {"max_queue_size": settings.max_queue_size}, self._metrics.profile
        )
        self._inference = Inference(self.models, self._metrics, settings)
        self._metrics.watch(self.models, lambda: self._inference.under_way)
        self._regions = Regions(is_allowed=settings.is_local and not settings.no_shared_memory)
        self._access = access.Access(settings)
        self._http: _Uvicorn | None = None
        self._http_task: asyncio.Task[None] | None = None
        self._grpc: Any = None
        self._detectors: Any = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the models, then listen. Raises what opening raises, OSError for taken addresses."""
        _allow_connections(self.settings.max_connections)
        request_log.set_up(self.settings.log)
        try:
            await self.models.open_all()
            if self.settings.http:
                await self._start_http()
            if self.settings.grpc:
                await self._start_grpc()
            if self.settings.zmq:
                await self._start_zmq()
        except BaseException:
            await self.stop()
            raise
        if self.settings.reload:
            self._watch = asyncio.create_task(self.models.watch(self.settings.reload))

    async def stop(self) -> bool:
        """Accept nothing more, finish what was accepted, close the models.

        False where a device doesn't end what it was given: its model can't be closed.
        """
        self._inference.is_draining = True
        if self._watch is not None:
            self._watch.cancel()
        seconds = self.settings.drain_timeout
        await asyncio.gather(self._stop_grpc(seconds), self._stop_http(seconds), self._stop_zmq())
        self._regions.close()
        return await self.models.close(seconds)

    # ----------------------------------------------------------------------------------- REST form

    async def _start_http(self) -> None:
        host, port = split_address(self.settings.http)
        listening = _listen(host, port)
        rest = RestServer(
            self._inference, self._regions, self._access, self._metrics, self.settings
        )
        config = uvicorn.Config(
            rest.application(),
            http=http_connections.guarded(
                self.settings.max_connections, self.settings.body_timeout
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=max(1, round(self.settings.drain_timeout)),
            **access.http_tls(self.settings),
        )
        self._http = _Uvicorn(config)
        self._http_task = asyncio.create_task(self._http.serve(sockets=[listening]))
        while not self._http.started and not self._http_task.done():
            await asyncio.sleep(0.005)
        if self._http_task.done():
            self._http_task.result()
        scheme = "https" if self.settings.tls_certificate else "http"
        self.addresses["http"] = f"{scheme}://{_shown(host, listening.getsockname()[1])}"

    async def _stop_http(self, seconds: float) -> None:
        if self._http is not None and self._http_task is not None:
            self._http.should_exit = True
            await asyncio.wait({self._http_task}, timeout=seconds + 5)

    # ----------------------------------------------------------------------------------- gRPC form

    async def _start_grpc(self) -> None:
        host, port = split_address(self.settings.grpc)
        server = grpc.aio.server(
            maximum_concurrent_rpcs=self.settings.max_requests,
            options=[
                ("grpc.max_receive_message_length", self.settings.max_body),
                ("grpc.max_send_message_length", -1),
                # A second server on the port is a mistake, not a partner.
                ("grpc.so_reuseport", 0),
                # Clients that vanished are noticed.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 10_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.server_handshake_timeout_ms", round(self.settings.body_timeout * 1000)),
                # They are refused by name; gRPC would cancel some beyond the first thousand.
                ("grpc.server.max_pending_requests", _MOST_PENDING),
                ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING),
            ],
        )
        service = GrpcService(self._inference, self._regions, self._access)
        server.add_generic_rpc_handlers((service.handlers(),))
        credentials = access.grpc_credentials(self.settings)
        try:
            if credentials is None:
                bound = server.add_insecure_port(_shown(host, port))
            else:
                bound = server.add_secure_port(_shown(host, port), credentials)
        except RuntimeError as error:
            raise OSError(f"{self.settings.grpc} can't be listened on: {error}") from None
        if not bound:
            raise OSError(f"{self.settings.grpc} can't be listened on: is it taken?")
        await server.start()
        self._grpc = server
        scheme = "grpcs" if credentials is not None else "grpc"
        self.addresses["grpc"] = f"{scheme}://{_shown(host, bound)}"

    async def _stop_grpc(self, seconds: float) -> None:
        if self._grpc is not None:
            await self._grpc.stop(seconds)

    # ------------------------------------------------------------------------- Frigate's detectors

    async def _start_zmq(self) -> None:
        from .frigate import DetectorServer

        name = self.settings.zmq_model or self.settings.models[0].name
        self._detectors = DetectorServer(self._inference, name, self.settings)
        self.addresses["zmq"] = await self._detectors.start()

    async def _stop_zmq(self) -> None:
        if self._detectors is not None:
            await self._detectors.stop()


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which leaves signals to whoever started it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing is captured."""
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP's, or asyncio leaves Nagle's algorithm on: an answer in two pieces waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(f"{_shown(host, port)} can't be listened on: {error.strerror}") from None
    listening.setblocking(False)
    return listening


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _allow_connections(most: int) -> None:
    """As many open files as connections and models take, as far as this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + _FILES_BESIDES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(settings: ServeSettings, is_up: Callable[[Server], None]) -> bool:
    """Serve until SIGTERM or SIGINT, and finish what was accepted; `is_up` hears of the start.

    Returns what `Server.stop` does.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = Server(settings)
    await server.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    is_up(server)
    await ended.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    return await server.stop()
