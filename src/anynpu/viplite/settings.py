"""What `vip_set_network` sets: the properties of a network, each before `prepare`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

from ..errors import StateError
from . import abi
from .buffer import Buffer
from .layer_dump import LayerDump, LayerOutput
from .runtime import Handle

_Prop = abi.NetworkProperty


class Settings:
    """The properties of a network; failed calls raise `CallError`."""

    _handle: Handle
    _dump: LayerDump | None = None

    def set_priority(self, priority: int) -> None:
        """Which of the waiting runs goes first: 0, the lowest, to 255."""
        if not 0 <= priority <= 255:
            raise ValueError(f"priority is {priority}; it may be 0 (the lowest) to 255")
        # Four bytes, whatever the width that the library reads.
        self._set(_Prop.SET_PRIORITY, ctypes.c_uint32(priority))

    def set_timeout(self, milliseconds: int) -> None:
        """How long a run may take before it fails."""
        self._set(_Prop.SET_TIME_OUT, ctypes.c_uint32(milliseconds))

    def set_device(self, index: int) -> None:
        """The device that it runs on, where there are several."""
        self._set(_Prop.SET_DEVICE_INDEX, ctypes.c_uint32(index))

    def set_core(self, index: int) -> None:
        """The first of the device's cores that it runs on (2.0)."""
        self._set(_Prop.SET_CORE_INDEX, ctypes.c_int32(index))

    def set_memory_pool(self, pool: Buffer) -> None:
        """Where intermediate tensors go; networks that take turns may share `pool`."""
        self._set_buffer(_Prop.SET_MEMORY_POOL, pool)

    def set_coefficient_memory(self, memory: Buffer) -> None:
        """Where weights are loaded to in advance, all or some of them."""
        self._set_buffer(_Prop.SET_COEFF_MEMORY, memory)

    def set_ppu_change(self, may_change: bool) -> None:
        """Whether `set_ppu_param` may be used."""
        self._set(_Prop.CHANGE_PPU_PARAM, ctypes.c_uint32(may_change))

    def set_npd(self, is_enabled: bool) -> None:
        """Whether the driver measures each run (2.0)."""
        self._set(_Prop.SET_ENABLE_NPD, ctypes.c_int32(is_enabled))

    def set_sram_preload(self, is_enabled: bool) -> None:
        """Whether weights are loaded to on-chip memory in advance (2.0)."""
        self._set(_Prop.SET_VIPSRAM_PRELOAD, ctypes.c_int32(is_enabled))

    def set_operation_range(self, first: int, last: int) -> None:
        """Run only these operations: a property that no document names."""
        value = (ctypes.c_uint32 * 2)(first, last)
        code = self._handle.library.vip_set_network(self._handle.value, abi.OPERATION_RANGE, value)
        self._handle.library.check("vip_set_network", code, f"operations {first} to {last}")

    def keep_layer_outputs(self, layer_ids: Sequence[int]) -> None:
        """Let runs keep the outputs of some layers, for `layer_outputs` (2.0)."""
        self._dump = LayerDump(self._handle, layer_ids)

    def layer_outputs(self) -> list[LayerOutput]:
        """The outputs of the layers kept, as the last run left them."""
        if self._dump is None:
            raise StateError("no layers are kept; call keep_layer_outputs before prepare")
        return self._dump.outputs()

    def _set_twin(self, path: bytes) -> None:
        code = self._handle.library.vip_set_network(self._handle.value, abi.SOFT_TWIN, path)
        self._handle.library.check("vip_set_network", code, f"twin {os.fsdecode(path)}")

    def _set(self, prop: abi.NetworkProperty, value: ctypes._SimpleCData[int]) -> None:
        handle = self._handle.value
        code = self._handle.library.vip_set_network(handle, int(prop), ctypes.byref(value))
        if code:
            self._handle.library.check("vip_set_network", code, f"{prop.symbol} = {value.value}")

    def _set_buffer(self, prop: abi.NetworkProperty, buffer: Buffer) -> None:
        # Of this property alone the value is the handle itself, not where it is.
        value = buffer.handle.value_in(self._handle.runtime)
        self._handle.library.check(
            "vip_set_network",
            self._handle.library.vip_set_network(self._handle.value, int(prop), value),
            f"{prop.symbol}, a buffer of {buffer.size} bytes",
        )
        self._handle.need(prop, buffer.handle)
