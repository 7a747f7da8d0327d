"""The state behind a vip_network, and how a call gets hold of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from ...errors import ModelError
from ...soc import VipSoc
from ...viplite.abi import Status
from ..engines import Instance, Program, Variant
from ..engines.nbg import vip
from ..engines.nbg.twin import TwinProgram
from ..engines.vip.refusal import Refusal
from ..formats.nbg import Nbg
from ..handles import RunnableTable
from ..mapping import give_back_heap
from .buffers import Buffer
from .driver import DRIVER, needs_driver, table
from .failure import Failure
from .log import LOG
from .runs import TimedRunnable

_P = ParamSpec("_P")
_R = TypeVar("_R")


class NetworkFile:
    """A network binary that networks share: what it says, and its program, loaded when needed.

    What is executed is given up once there is a program; counts of the file's tables stay.
    """

    def __init__(self, nbg: Nbg, chip: VipSoc, path: Path | None) -> None:
        self.nbg = nbg
        self.layer_count, self.operation_count = len(nbg.layers), len(nbg.operations)
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
                if twin is None:
                    # Other programs of the file are twins, which need its tensors alone.
                    self.nbg = replace(
                        self.nbg, executable=None, layers=(), operations=(), sections=()
                    )
                    give_back_heap()
            return self._programs[twin]


class Network(TimedRunnable):
    """One network.

    `priority` is 0 (lowest) to 255. `instance` and `ports` are there while the network is prepared;
    `inputs` and `outputs` are the buffers bound, by index.
    """

    kind = "network"

    def __init__(self, file: NetworkFile) -> None:
        super().__init__()
        self.file = file
        self.priority = 0
        self.twin: Path | None = None
        self.instance: Instance | None = None
        self.ports = Variant((), ())
        self.inputs: dict[int, Buffer] = {}
        self.outputs: dict[int, Buffer] = {}

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
        super().cancel()
        instance = self.instance
        if instance is not None:
            instance.cancel()
        DRIVER.pool(self.chip).wake()

    def unprepare(self) -> None:
        """Let go of what preparing made."""
        if self.instance is not None:
            self.instance.close()
        self.instance = None
        self.inputs, self.outputs = {}, {}

    def release(self) -> None:
        self.unprepare()


NETWORKS: RunnableTable[Network] = table(RunnableTable, "network")


def on_network(
    function: Callable[Concatenate[Network, _P], _R],
) -> Callable[Concatenate[int | None, _P], _R]:
    """Let a function that works on a network be called with its handle, as C does."""

    @needs_driver
    @wraps(function)
    def call(handle: int | None, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        with NETWORKS.borrow(handle) as network:
            return function(network, *arguments, **keywords)

    return call
