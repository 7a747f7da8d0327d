"""The driver of a process: who uses it, the NPUs' cores, and their power.

Every call but `vip_get_version` needs the driver, which lives from the first `vip_init` to the
last `vip_destroy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from ... import process
from ... import soc as socs
from ...errors import OptionError
from ...soc import VipSoc
from ...viplite.abi import Status
from ..device import CorePool
from .failure import Failure, invalid

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Closeable(Protocol):
    """What a handle stands for."""

    def close(self) -> None: ...


_T = TypeVar("_T", bound=Closeable)
_handles = itertools.count(1)


class Table(Generic[_T]):
    """The objects of one kind by their handles: small integers, never reused."""

    def __init__(self, kind: str) -> None:
        _TABLES.append(self)
        self._kind = kind
        self._objects: dict[int, _T] = {}

    def add(self, entry: _T) -> int:
        """Give an object a handle."""
        handle = next(_handles)
        self._objects[handle] = entry
        return handle

    def find(self, handle: int | None) -> _T:
        """The object of a handle; INVALID_ARGUMENTS for NULL and for one that isn't alive."""
        found = self._objects.get(handle or 0)
        if found is None:
            raise self._unknown(handle)
        return found

    def remove(self, handle: int | None) -> _T:
        """Take an object out of the table; INVALID_ARGUMENTS as for `find`."""
        found = self._objects.pop(handle or 0, None)
        if found is None:
            raise self._unknown(handle)
        return found

    def all(self) -> list[_T]:
        """What is alive."""
        return list(self._objects.values())

    def leave_behind(self) -> None:
        """Know of nothing any more, and keep it as it is."""
        process.keep_for_ever(self._objects)
        self._objects = {}

    def close_all(self) -> None:
        """Close what is left."""
        while self._objects:
            self._objects.popitem()[1].close()

    def _unknown(self, handle: int | None) -> Failure:
        return invalid(f"{self._kind} {handle or 0:#x} is not alive")


_TABLES: list[Table[Any]] = []


def close_everything() -> None:
    """Close what the program left alive, what was built on others first."""
    for table in reversed(_TABLES):
        table.close_all()


class Power:
    """Whether the NPU may work. `frequency` is in per cent of the highest."""

    def __init__(self) -> None:
        self.is_on = True
        self.is_stopped = False
        self.frequency = 100

    def check(self) -> None:
        """POWER_OFF or POWER_STOP unless requests may be submitted."""
        if not self.is_on:
            raise Failure(Status.POWER_OFF, "the NPU is off: VIP_POWER_PROPERTY_ON turns it on")
        if self.is_stopped:
            raise Failure(
                Status.POWER_STOP, "the NPU is stopped: VIP_POWER_PROPERTY_START starts it"
            )


class Driver:
    """What the calls of a process share. Thread-safe."""

    def __init__(self) -> None:
        self.lock = process.lock()
        self.users = 0
        self.power = Power()
        self._pools: dict[str, CorePool] = {}

    def pool(self, chip: VipSoc) -> CorePool:
        """The cores of a chip's NPU."""
        with self.lock:
            return self._pools.setdefault(chip.npu_version, CorePool(chip.cores))

    def require(self) -> None:
        """FAILURE before the first `vip_init` and after the last `vip_destroy`."""
        if not self.users:
            raise Failure(Status.FAILURE, "vip_init has not been called")

    def leave_behind(self) -> None:
        """In a forked process nobody uses the driver, and nothing from before is taken apart."""
        self.users = 0
        self._pools = {}
        for table in _TABLES:
            table.leave_behind()


DRIVER = Driver()
process.in_child(DRIVER.leave_behind)


def needs_driver(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse a call while the driver isn't there."""

    @wraps(function)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        DRIVER.require()
        return function(*arguments, **keywords)

    return call


def chosen_chip() -> VipSoc | None:
    """The chip that the environment asks for, None for whatever a network is for."""
    try:
        return socs.chosen_vip()
    except OptionError as error:
        raise Failure(Status.NETWORK_INCOMPATIBLE, str(error)) from error


def answering_chip() -> VipSoc:
    """The chip whose properties are answered."""
    return chosen_chip() or socs.VIP_DEFAULT
