"""The driver of a process: who uses it, the NPUs' cores, and their power.

Every call but `vip_get_version` needs the driver, which lives from the first `vip_init` to the
last `vip_destroy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ... import process
from ... import soc as socs
from ...errors import OptionError
from ...soc import VipSoc
from ...viplite.abi import Status
from ..device import CorePool
from ..handles import Table
from .failure import Failure, invalid

_P = ParamSpec("_P")
_R = TypeVar("_R")


_numbers = itertools.count(1)
_TABLES: list[Table[Any]] = []
_AnyTable = TypeVar("_AnyTable", bound=Table[Any])


def table(
    make: Callable[[Iterator[int], Callable[[int], Failure]], _AnyTable], kind: str
) -> _AnyTable:
    """The table of a kind of things, made by its class; INVALID_ARGUMENTS where none is alive."""
    made = make(_numbers, lambda handle: invalid(f"{kind} {handle:#x} is not alive"))
    _TABLES.append(made)
    return made


def close_everything() -> None:
    """Close what the program left alive, what was built on others first."""
    for each in reversed(_TABLES):
        each.close_all()


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
        """In a forked process the driver isn't in use."""
        self.users = 0
        self._pools = {}


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
