"""What a pump is asked and what it answers, whoever its workers are.

A worker runs a request's program: steps, each a C function with integer arguments, constants or the
request's slots.
"""

from __future__ import annotations

import ctypes
import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ...structures import Structure

MAX_ARGUMENTS = 8
MAX_STEPS = 32
MAX_SLOTS = 8
MAX_WORKERS = 1024
MASKED_WORKERS = 64
ANY_WORKER = 2**64 - 1


@dataclass(frozen=True)
class Slot:
    """An argument that each request brings: the number of one of its slots."""

    number: int


@dataclass(frozen=True)
class Step:
    """A call of the C function at `address`, which returns 0 or a code that ends the request.

    `is_entry`: only when the worker's program before was another one, or failed.
    """

    name: str
    address: int
    arguments: tuple[int | Slot, ...]
    is_entry: bool = False


class State(enum.IntEnum):
    """Where a request stands."""

    IDLE = 0
    WAITING = 1
    RUNNING = 2
    DONE = 3
    CANCELLED = 4


class Answer(enum.IntEnum):
    """Whether a request was accepted; FINISHED: it also ran on the caller's thread."""

    ACCEPTED = 0
    FULL = 1
    CLOSED = 2
    FINISHED = 3


class RequestRecord(Structure):
    """What a worker runs a program on; its owner keeps it until it is done.

    The first fields are the submitter's: slots, a bit mask of the workers that may run it
    (`ANY_WORKER`: those beyond its `MASKED_WORKERS` bits too), the program's number, whether
    `Pump.next` gives it when it is done, whether it counts in `order`, and whether it may enter a
    full queue. The others are the pump's; times are nanoseconds of `time.monotonic`, `ends` when
    each step was over.
    """

    _fields_ = [
        ("slots", ctypes.c_uint64 * MAX_SLOTS),
        ("workers", ctypes.c_uint64),
        ("program", ctypes.c_uint32),
        ("is_reported", ctypes.c_uint32),
        ("is_ordered", ctypes.c_uint32),
        ("is_urgent", ctypes.c_uint32),
        ("state", ctypes.c_int32),
        ("result", ctypes.c_int32),
        ("step", ctypes.c_uint32),
        ("worker", ctypes.c_uint32),
        ("order", ctypes.c_uint64),
        ("submitted", ctypes.c_int64),
        ("started", ctypes.c_int64),
        ("ends", ctypes.c_int64 * MAX_STEPS),
        ("next", ctypes.c_void_p),
    ]


class Pump(ABC):
    """Workers and their queue. Any thread may call any method; timeouts are in seconds."""

    workers: int

    @abstractmethod
    def add_program(self, steps: Sequence[Sequence[Step]]) -> int:
        """Add a program, one list of steps for each worker; returns its number."""

    @abstractmethod
    def set_schedule(self, masks: Sequence[int]) -> None:
        """Let request number n run on the workers of the bit mask ``masks[n % len(masks)]``."""

    @abstractmethod
    def set_pacing(self, is_paced: bool) -> None:
        """Accept requests no faster than the workers do them."""

    @abstractmethod
    def submit(self, request: RequestRecord, timeout: float | None) -> Answer:
        """Let a request run as soon as a worker is free; 0 waits for nothing."""

    @abstractmethod
    def run(self, request: RequestRecord, timeout: float | None) -> Answer:
        """The same, and on this thread where a worker is idle: FINISHED, not ACCEPTED."""

    @abstractmethod
    def wait(self, requests: Sequence[RequestRecord], timeout: float | None) -> int:
        """Wait until one of the requests is finished; its place, or -1 after the timeout."""

    @abstractmethod
    def next(self, timeout: float | None) -> int:
        """The address of the reported request that was done first.

        0 after the timeout, and at the end: when the pump is closed and all that were given are
        confirmed.
        """

    @abstractmethod
    def confirm(self, count: int) -> None:
        """Say that reported requests were dealt with."""

    @abstractmethod
    def cancel(self, request: RequestRecord) -> bool:
        """Take a request back that still waits; whether it did."""

    @abstractmethod
    def close(self, *, cancel: bool) -> None:
        """Accept nothing more; what waits is cancelled, or still run."""

    @abstractmethod
    def join(self) -> None:
        """Wait for the workers of a closed pump to end; once."""
