"""What hardware there is, and its power."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from . import abi
from .abi import Interface, PowerProperty
from .buffer import LibraryLike
from .library import VipliteLibrary, load
from .network import Network
from .runtime import runtime_of


@dataclass(frozen=True)
class Hardware:
    """What `vip_query_hardware` answers: the customer id, and for each device its cores."""

    customer_id: int
    core_counts: tuple[int, ...]

    @property
    def device_count(self) -> int:
        """How many devices there are."""
        return len(self.core_counts)


def hardware(library: LibraryLike = None) -> Hardware:
    """The hardware that a library drives; the runtime is initialised meanwhile."""
    with _running(library) as runtime:
        customer_id = ctypes.c_uint32()
        _query(runtime, abi.HardwareProperty.CID, customer_id)
        devices = ctypes.c_uint32()
        _query(runtime, abi.HardwareProperty.DEVICE_COUNT, devices)
        cores = (ctypes.c_uint32 * devices.value)()
        if devices.value:
            _query(runtime, abi.HardwareProperty.CORE_COUNT_EACH_DEVICE, cores)
        return Hardware(int(customer_id.value), tuple(cores))


class Power:
    """The power of one device: `vip_power_management`. Any thread may use it.

    Drivers may refuse any of it with `CallError` (VIP_ERROR_NOT_SUPPORTED). A library of V85x
    takes a network in the place of a device's number.
    """

    def __init__(
        self, device: int = 0, *, network: Network | None = None, library: LibraryLike = None
    ) -> None:
        self._library = load(library) if network is None else network.library
        self._device = device
        self._network = network

    def set_frequency(self, percent: int) -> None:
        """Let the NPU run at `percent` per cent of its highest frequency, 1 to 100."""
        if not 1 <= percent <= 100:
            raise ValueError(f"the frequency is {percent} %; it may be 1 to 100")
        self._manage(PowerProperty.SET_FREQUENCY, abi.PowerFrequency(percent))

    def off(self) -> None:
        """Switch the power off: runs fail until `on`."""
        self._manage(PowerProperty.OFF)

    def on(self) -> None:
        """Switch the power on."""
        self._manage(PowerProperty.ON)

    def stop(self) -> None:
        """Let nothing run until `start`."""
        self._manage(PowerProperty.STOP)

    def start(self) -> None:
        """Let things run again after `stop`."""
        self._manage(PowerProperty.START)

    def _manage(self, prop: PowerProperty, value: ctypes.Structure | None = None) -> None:
        with _running(self._library) as library:
            target: int | None = self._device
            if library.interface is Interface.V85X:
                target = self._network.handle.value if self._network is not None else None
            pointer = None if value is None else ctypes.byref(value)
            code = library.vip_power_management(target, int(prop), pointer)
            library.check("vip_power_management", code, f"{prop.symbol} of device {self._device}")


def set_log_path(path: str | os.PathLike[str], *, library: LibraryLike = None) -> None:
    """The folder of the library's log: `vip_set_log_path` (section 2.4.3.1).

    Called while a network, buffer or group is there, since it needs an initialised runtime. Raises
    `MissingFunctionError` where the library doesn't have it; the guide does, most libraries don't.
    """
    with _running(library) as runtime:
        folder = os.fspath(path)
        runtime.check("vip_set_log_path", runtime.vip_set_log_path(os.fsencode(folder)), folder)


@contextmanager
def _running(library: LibraryLike) -> Iterator[VipliteLibrary]:
    """A library whose runtime is initialised inside the block."""
    runtime = runtime_of(load(library))
    runtime.enter()
    try:
        yield runtime.library
    finally:
        runtime.leave()


def _query(library: VipliteLibrary, prop: abi.HardwareProperty, value: ctypes._CData) -> None:
    size = ctypes.sizeof(value)
    code = library.vip_query_hardware(int(prop), size, ctypes.byref(value))
    library.check("vip_query_hardware", code, prop.symbol)
