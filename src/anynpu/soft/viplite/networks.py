"""The state behind a vip_network, and how a call gets hold of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from ...errors import ModelError
from ...soc import VipSoc
from ...viplite.abi import Status
from ..cabi import doors
from ..engines import Instance, Program, Variant
from ..engines.nbg import vip
from ..engines.nbg.twin import TwinProgram
from ..engines.vip.refusal import Refusal
from ..formats.nbg import Nbg
from ..request import Request
from .buffers import Buffer
from .driver import DRIVER, Table, needs_driver
from .failure import Failure, invalid
from .log import LOG

_P = ParamSpec("_P")
_R = TypeVar("_R")


class NetworkFile:
    """A network binary that networks share: what it says, and its program, loaded when needed."""

    def __init__(self, nbg: Nbg, chip: VipSoc, path: Path | None) -> None:
        self.nbg = nbg
        self.chip = chip
        self._path = path
        self._programs: dict[Path | None, Program] = {}
        self._lock = threading.RLock()

    def program(self, twin: Path | None) -> Program:
        """What computes it, by a twin that was named or whichever is found."""
        with self._lock:
            if twin not in self._programs:
                try:
                    program = vip.load(self.nbg, self._path, twin)
                except Refusal as error:
                    raise Failure(Status.NOT_SUPPORTED, str(error)) from error
                except ModelError as error:
                    raise Failure(Status.FAILURE, str(error)) from error
                if isinstance(program, TwinProgram) and self.nbg.onnx is None:
                    LOG.notice(
                        f"network {self.nbg.name!r} is computed by the ONNX file that it was made "
                        f"from, not by its own commands: results differ from a board's by some "
                        f"steps"
                    )
                self._programs[twin] = program
            return self._programs[twin]


class Network:
    """One network. Its lock is held during every call on it but `vip_cancel_network`.

    `priority` is 0 (lowest) to 255, `timeout` in milliseconds, 0 for none; `deadline` is when the
    time of a run under way is over (`time.monotonic`). `instance` and `ports` are there while the
    network is prepared; `inputs` and `outputs` are the buffers bound, by index.
    """

    def __init__(self, file: NetworkFile) -> None:
        self.lock = threading.RLock()
        self.file = file
        self.closed = False
        self.priority = 0
        self.timeout = 0
        self.deadline: float | None = None
        self.twin: Path | None = None
        self.instance: Instance | None = None
        self.ports = Variant((), ())
        self.inputs: dict[int, Buffer] = {}
        self.outputs: dict[int, Buffer] = {}
        self.request: Request | None = None
        self.cancelled = threading.Event()
        self.microseconds = 0

    @property
    def nbg(self) -> Nbg:
        return self.file.nbg

    @property
    def chip(self) -> VipSoc:
        return self.file.chip

    @property
    def prepared(self) -> Instance:
        """What to compute with; NETWORK_NOT_PREPARED while it isn't there."""
        if self.instance is None:
            raise Failure(
                Status.NETWORK_NOT_PREPARED,
                f"network {self.nbg.name!r} has to be prepared first (vip_prepare_network)",
            )
        return self.instance

    def duplicate(self) -> Network:
        """A network of its own on the same file."""
        created = Network(self.file)
        created.twin = self.twin
        return created

    def cancel(self) -> None:
        """Make a run that waits or is under way end soon; from any thread."""
        self.cancelled.set()
        instance = self.instance
        if instance is not None:
            instance.cancel()
        DRIVER.pool(self.chip).wake()

    def finish(self) -> None:
        """Let go of what preparing made."""
        if self.instance is not None:
            self.instance.close()
        self.instance = None
        self.inputs, self.outputs = {}, {}

    def close(self) -> None:
        """End a run under way and let go of everything."""
        self.cancel()
        request = self.request
        if request is not None:
            request.wait()
        with self.lock:
            self.closed = True
            # A run keeps the network, which keeps the run.
            self.request = None
            self.finish()


NETWORKS: Table[Network] = Table("network")


def _cancel_all() -> None:
    for network in NETWORKS.all():
        network.cancel()


doors.at_hurry(_cancel_all)


@contextmanager
def borrow(handle: int | None) -> Iterator[Network]:
    """The network of a handle, idle and locked for the block; INVALID_ARGUMENTS where none is."""
    network = NETWORKS.find(handle)
    while True:
        # Another thread that waits for the run may take it away.
        if (request := network.request) is not None:
            request.wait()
        with network.lock:
            if network.closed:
                raise invalid(f"network {handle or 0:#x} is not alive")
            request = network.request
            if request is None or request.is_done:
                yield network
                return


def on_network(
    function: Callable[Concatenate[Network, _P], _R],
) -> Callable[Concatenate[int | None, _P], _R]:
    """Let a function that works on a network be called with its handle, as C does."""

    @needs_driver
    @wraps(function)
    def call(handle: int | None, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        with borrow(handle) as network:
            return function(network, *arguments, **keywords)

    return call
