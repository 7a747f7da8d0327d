"""`Group`: networks that run one after the other with nothing between them."""

from __future__ import annotations

import ctypes
import weakref

from ..lifetime import Closeable
from . import abi
from .buffer import LibraryLike
from .library import load
from .network import Network
from .queries import RunTime
from .runtime import Handle, runtime_of

_Prop = abi.GroupProperty


class Group(Closeable):
    """One `vip_group`, with room for `capacity` networks.

    The networks are prepared and have buffers before the group runs; the group keeps them. One
    thread at a time. Failed calls raise `CallError`.
    """

    def __init__(self, capacity: int, *, library: LibraryLike = None) -> None:
        runtime = runtime_of(load(library))
        self._handle = Handle(runtime, "vip_create_group", "vip_destroy_group", capacity)
        self._library = runtime.library
        self._count = 0
        self._finalizer = weakref.finalize(self, self._handle.close)

    @property
    def handle(self) -> Handle:
        """The handle of C's."""
        return self._handle

    def __len__(self) -> int:
        """How many networks were added."""
        return self._count

    def add(self, network: Network) -> None:
        """Add a network after those that are there: `vip_add_network`."""
        value = network.handle.value_in(self._handle.runtime)
        code = self._library.vip_add_network(self._handle.value, value)
        self._library.check(
            "vip_add_network", code, f"network {network.name!r}, number {self._count}"
        )
        self._handle.need(self._count, network.handle)
        self._count += 1

    def set_device(self, index: int) -> None:
        """The device that the networks run on."""
        self._set(_Prop.SET_DEVICE_INDEX, index)

    def set_core(self, index: int) -> None:
        """The first of the device's cores that they run on (2.0)."""
        self._set(_Prop.SET_CORE_INDEX, index)

    def set_timeout(self, milliseconds: int) -> None:
        """How long a run of the group may take before it fails."""
        self._set(_Prop.SET_TIME_OUT, milliseconds)

    def _set(self, prop: abi.GroupProperty, number: int) -> None:
        value = abi.GROUP_VALUES[prop](number)
        handle = self._handle.value
        code = self._library.vip_set_group(handle, int(prop), ctypes.byref(value))
        self._library.check("vip_set_group", code, f"{prop.symbol} = {number}")

    def run_time(self) -> RunTime:
        """What the last run took."""
        value = abi.InferenceProfile()
        prop = _Prop.PROFILING
        handle = self._handle.value
        code = self._library.vip_query_group(handle, int(prop), ctypes.byref(value))
        self._library.check("vip_query_group", code, prop.symbol)
        return RunTime(int(value.inference_time), int(value.total_cycle))

    def run(self, count: int | None = None) -> None:
        """Compute the first `count` networks, by default all, in turn: `vip_run_group`."""
        self._call("vip_run_group", count)

    def trigger(self, count: int | None = None) -> None:
        """Begin to: `vip_trigger_group`; `wait` waits for the end."""
        self._call("vip_trigger_group", count)

    def wait(self) -> None:
        """Wait for what `trigger` began: `vip_wait_group`."""
        self._library.check("vip_wait_group", self._library.vip_wait_group(self._handle.value))

    def _call(self, call: str, count: int | None) -> None:
        number = self._count if count is None else count
        code = getattr(self._library, call)(self._handle.value, number)
        if code:
            self._library.check(call, code, f"{number} of {self._count} networks")

    def close(self) -> None:
        """Destroy it; twice does nothing. The networks stay their owners'."""
        self._finalizer()
