"""The process that computes: programs connect, hand their memory over, and submit jobs."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...errors import ModelError
from ...lifetime import Closeable
from ...soc import Soc
from ..engines.rknpu.memory import SLACK
from ..mapping import map_descriptor
from .engine import Engine
from .memory_objects import MemoryObject
from .messages import Answer, Kind, Message

_SEAL = 1033  # F_ADD_SEALS
_SEAL_SHRINK = 2


Report = Callable[[str, bool], None]
"""Gets a line for each job, and whether it tells of a problem."""


def _silent(line: str, is_problem: bool) -> None:
    pass


class Server(Closeable):
    """A Unix socket on which programs find the NPU, and the threads that serve them.

    `report` gets a line for each job: what was computed, or why not. Jobs are computed one after
    another, whoever submits them.
    """

    def __init__(
        self,
        soc: Soc,
        *,
        use_fast: bool = True,
        report: Report = _silent,
    ) -> None:
        self._soc = soc
        self._use_fast = use_fast
        self._report = report
        self._npu = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="anynpu-driver-")
        self.path = Path(self._folder.name) / "npu"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._programs: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="anynpu-driver", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        for program in (self._listener, *self._programs):
            with suppress(OSError):
                program.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                program, _ = self._listener.accept()
            except OSError:
                return
            self._programs.add(program)
            threading.Thread(target=self._serve, args=(program,), daemon=True).start()

    def _serve(self, program: socket.socket) -> None:
        served = _Program(Engine(self._soc, self._use_fast), self._npu, self._report)
        try:
            while served.answer(program):
                pass
        except OSError as error:
            self._report(f"a program's connection broke: {error}", True)
        finally:
            self._programs.discard(program)
            program.close()


class _Program:
    """One connected process: its memory objects and its engine."""

    def __init__(self, engine: Engine, npu: threading.Lock, report: Report) -> None:
        self._engine = engine
        self._npu = npu
        self._report = report
        self._objects: dict[int, MemoryObject] = {}

    def answer(self, program: socket.socket) -> bool:
        """Take one message; False when the program is gone."""
        data, descriptors, _, _ = socket.recv_fds(program, ctypes.sizeof(Message), 1)
        try:
            if len(data) != ctypes.sizeof(Message):
                if data:
                    self._report(f"a message of {len(data)} bytes is not understood", True)
                return False
            return self._take(Message.from_buffer_copy(data), descriptors, program)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _take(self, message: Message, descriptors: list[int], program: socket.socket) -> bool:
        if message.kind == Kind.ADD_OBJECT and descriptors:
            self._add(message, descriptors[0])
        elif message.kind == Kind.DROP_OBJECT:
            self._objects.pop(message.handle, None)
            self._engine.forget(message.handle)
        elif message.kind == Kind.SUBMIT_JOB:
            program.send(bytes(self._compute(message)))
        else:
            self._report(f"a message of kind {message.kind} is not understood", True)
            return False
        return True

    def _add(self, message: Message, descriptor: int) -> None:
        with suppress(OSError):
            # A file that gets shorter would end this process.
            fcntl.fcntl(descriptor, _SEAL, _SEAL_SHRINK)
        try:
            data = map_descriptor(descriptor, message.size, SLACK)
        except (OSError, ValueError) as error:
            # Tasks that use it are refused: no memory has its address.
            self._report(f"memory of {message.size} bytes can't be shared: {error}", True)
            return
        self._objects[message.handle] = MemoryObject(message.address, message.size, data)

    def _compute(self, message: Message) -> Answer:
        start = time.monotonic_ns()
        error, line = 0, ""
        try:
            with self._npu:
                count = self._engine.compute(message.job, message.handle, self._objects)
            line = f"{count} tasks"
        except ModelError as problem:
            error, line = errno.EIO, f"the NPU can't compute a job: {problem}"
        except Exception as problem:
            error, line = errno.EIO, f"{type(problem).__name__}: {problem}"
        elapsed = time.monotonic_ns() - start
        self._report(line, bool(error))
        return Answer(error=error, nanoseconds=elapsed)
