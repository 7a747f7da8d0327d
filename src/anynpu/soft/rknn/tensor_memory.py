"""rknn_tensor_mem: create, share, synchronise and destroy buffers.

The structures lie in slots that are never given back to the system, so that a stale pointer to
one can be told from a live one. A copy of a structure leads to its buffer by `priv_data`.
"""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import dataclass
from typing import Any

from ... import process
from ...rknn.abi import ErrorCode, InitFlag, MemoryFlag, MemoryOrigin, SyncMode, TensorMem
from ..device_memory import DeviceMemory, by_physical_address
from . import log
from .contexts import CONTEXTS, Context, DeviceContext, on_any_context, on_context
from .failure import Failure
from .leniency import crash, let_pass
from .readiness import check_memory_may_be_set

_LARGEST = 2**32 - 1
"""`size` in the structure is 32 bits wide."""

_NO_PHYSICAL = 2**64 - 1


@dataclass
class _Record:
    """A structure handed out, its buffer, and the on-chip memory it took of a context's device."""

    structure: TensorMem
    memory: DeviceMemory
    sram: int = 0
    owner: DeviceContext | None = None


class _Slots:
    """Places for structures, used again in turn, the longest free one first."""

    _BLOCK = 256

    def __init__(self) -> None:
        self._blocks: list[ctypes.Array[TensorMem]] = []
        self._free: deque[TensorMem] = deque()

    def take(self) -> TensorMem:
        if not self._free:
            block = (TensorMem * self._BLOCK)()
            self._blocks.append(block)
            self._free.extend(block)
        return self._free.popleft()

    def give_back(self, structure: TensorMem) -> None:
        ctypes.memset(ctypes.byref(structure), 0, ctypes.sizeof(structure))
        self._free.append(structure)

    def contain(self, address: int) -> bool:
        return any(
            0 <= address - ctypes.addressof(block) < ctypes.sizeof(block) for block in self._blocks
        )


_slots = _Slots()
_records: dict[int, _Record] = {}
_lock = process.lock()


def rknn_create_mem(ctx: int, size: int) -> int:
    """Cacheable memory."""
    return rknn_create_mem2(ctx, size, MemoryFlag.FLAGS_DEFAULT)


def rknn_create_mem2(ctx: int, size: int, alloc_flags: int) -> int:
    """Memory of the kind that the flags say; with ALLOC_NO_CONTEXT the context is not looked at."""
    if alloc_flags & MemoryFlag.ALLOC_NO_CONTEXT:
        return _allocate(None, size, alloc_flags)
    return _allocate_for(ctx, size, alloc_flags)


@on_any_context
def _allocate_for(ctx: DeviceContext, size: int, alloc_flags: int) -> int:
    return _allocate(ctx, size, alloc_flags)


def _allocate(ctx: DeviceContext | None, size: int, alloc_flags: int) -> int:
    if not 0 < size <= _LARGEST:
        raise _no_memory(size, alloc_flags)
    try:
        memory = DeviceMemory.allocate(size, cacheable=not alloc_flags & MemoryFlag.NON_CACHEABLE)
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        raise _no_memory(size, alloc_flags) from error
    sram = 0
    if ctx is not None and alloc_flags & MemoryFlag.TRY_ALLOC_SRAM:
        sram = ctx.device.take_sram(size)
    return _hand_out(ctx, memory, MemoryOrigin.ALLOC_INSIDE, memory.address, sram=sram)


@on_any_context
def rknn_create_mem_from_fd(
    ctx: DeviceContext, fd: int, virt_addr: int | None, size: int, offset: int
) -> int:
    """A part of the caller's descriptor. `virt_addr` is where its byte 0 is mapped, if anywhere.

    The structure has what the caller knows, and no physical address: as on a board.
    """
    if fd < 0 or offset < 0 or size == 0:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"fd({fd}), offset({offset}) or size({size}) is invalid"
        )
    try:
        memory = DeviceMemory.from_descriptor(fd, size, offset)
    except (OSError, ValueError, OverflowError) as error:
        raise Failure(
            ErrorCode.FAIL, f"failed to import fd({fd}), size({size}), offset({offset}): {error}"
        ) from error
    return _hand_out(
        ctx, memory, MemoryOrigin.FROM_FD, virt_addr, offset=offset, physical=_NO_PHYSICAL
    )


@on_any_context
def rknn_create_mem_from_phys(
    ctx: DeviceContext, phys_addr: int, virt_addr: int | None, size: int
) -> int:
    """Memory by its physical address: of another buffer here, else the caller's mapping of it."""
    if size == 0 or not (phys_addr or virt_addr):
        raise Failure(ErrorCode.PARAM_INVALID, "neither an address nor a size may be zero")
    if phys_addr == _NO_PHYSICAL:
        let_pass("no physical address", "the physical address is -1: the memory has none")
    base = by_physical_address(phys_addr, size)
    if base is not None:
        address = base.address + phys_addr - base.physical
    elif virt_addr:
        address = virt_addr
    else:
        raise Failure(
            ErrorCode.FAIL, f"physical address {phys_addr:#x} is not mapped in this simulation"
        )
    memory = DeviceMemory.from_address(address, size, phys_addr, base)
    return _hand_out(ctx, memory, MemoryOrigin.FROM_PHYS, virt_addr)


@on_any_context
def rknn_create_mem_from_mb_blk(ctx: DeviceContext, mb_blk: int | None, offset: int) -> int:
    """Refused: no current chip supports it (Table 4-1)."""
    raise Failure(ErrorCode.FAIL, "rknn_create_mem_from_mb_blk is not supported")


def rknn_destroy_mem(ctx: int, mem: Any) -> None:
    """Free a structure and what was allocated for it; the caller's own memory is left alone.

    A context that is gone has freed its memory with it.
    """
    try:
        record = _find(mem)
    except Failure:
        if not mem:
            raise
        if ctx not in CONTEXTS:
            raise crash("destroyed context", f"context {ctx:#x} is not alive") from None
        raise crash("destroyed memory", _UNKNOWN) from None
    with _lock:
        if _records.pop(ctypes.addressof(record.structure), None) is None:
            raise crash("destroyed memory", _UNKNOWN)
    _free(record)


@on_any_context
def rknn_mem_sync(ctx: DeviceContext, mem: Any, mode: int) -> None:
    """Bring the processor's and the device's view of cacheable memory together."""
    memory = find(mem)
    try:
        wanted = SyncMode(mode)
    except ValueError:
        raise Failure(ErrorCode.PARAM_INVALID, f"sync mode {mode} is unknown") from None
    if wanted & SyncMode.TO_DEVICE:
        memory.flush()
    if wanted & SyncMode.FROM_DEVICE:
        memory.invalidate()


@on_context
def rknn_set_weight_mem(ctx: Context, mem: Any) -> None:
    """Give the weights the caller's memory, as RKNN_FLAG_MEM_ALLOC_OUTSIDE asks."""
    if mem and not ctx.flags & InitFlag.MEM_ALLOC_OUTSIDE:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            "Must set RKNN_FLAG_MEM_ALLOC_OUTSIDE flag in rknn_init(), when using "
            "rknn_set_weight_mem()!",
        )
    ctx.weight_memory = _large_enough(ctx, mem, ctx.footprint.weight_bytes, "weight")


@on_context
def rknn_set_internal_mem(ctx: Context, mem: Any) -> None:
    """Give the intermediate tensors the caller's memory; contexts that take turns may share it."""
    needed = ctx.footprint.peak_intermediate_bytes
    ctx.internal_memory = _large_enough(ctx, mem, needed, "internal")


def find(mem: Any) -> DeviceMemory:
    """The buffer behind a structure's pointer; PARAM_INVALID for one that isn't alive."""
    return _find(mem).memory


def lend(ctx: Context, memory: DeviceMemory, size: int) -> TensorMem:
    """A structure for `size` bytes of the runtime's own memory, which calls know like the others.

    Until `take_back`; destroying the memory before is the program's mistake, and safe.
    """
    address = _hand_out(ctx, memory, MemoryOrigin.ALLOC_INSIDE, memory.address)
    structure = TensorMem.from_address(address)
    structure.size = size
    return structure


def take_back(structure: TensorMem) -> None:
    """End what `lend` began, for the structure or a copy of it."""
    with _lock:
        record = _records.pop(structure.priv_data or 0, None)
    if record is not None:
        _free(record)


def release_all(ctx: DeviceContext) -> None:
    """Free what was created for a context and not destroyed."""
    with _lock:
        owned = [address for address, record in _records.items() if record.owner is ctx]
        records = [_records.pop(address) for address in owned]
    for record in records:
        _free(record)


def _large_enough(ctx: Context, mem: Any, needed: int, kind: str) -> DeviceMemory:
    memory = find(mem)
    check_memory_may_be_set(ctx)
    if memory.size < needed:
        raise crash(
            "small model memory",
            f"{kind} memory size({memory.size}) < model {kind} size({needed})",
        )
    return memory


def _hand_out(
    ctx: DeviceContext | None,
    memory: DeviceMemory,
    origin: MemoryOrigin,
    virt_addr: int | None,
    *,
    offset: int = 0,
    sram: int = 0,
    physical: int | None = None,
) -> int:
    with _lock:
        structure = _slots.take()
        address = ctypes.addressof(structure)
        structure.virt_addr = virt_addr
        structure.phys_addr = memory.physical if physical is None else physical
        structure.fd = memory.fd
        structure.offset = offset
        structure.size = memory.size
        structure.flags = origin
        structure.priv_data = address
        _records[address] = _Record(structure, memory, sram, ctx)
    return address


def _find(mem: Any) -> _Record:
    if not mem:
        raise Failure(ErrorCode.PARAM_INVALID, "the memory pointer is NULL")
    address = ctypes.addressof(mem.contents)
    with _lock:
        record = _records.get(address)
        if record is None and not _slots.contain(address):
            record = _records.get(mem.contents.priv_data or 0)
    if record is None:
        raise Failure(ErrorCode.PARAM_INVALID, _UNKNOWN)
    return record


def _free(record: _Record) -> None:
    if record.owner is not None and record.sram:
        record.owner.device.return_sram(record.sram)
    record.memory.close()
    with _lock:
        _slots.give_back(record.structure)


_UNKNOWN = "the memory was destroyed or never created here"


def _no_memory(size: int, flags: int) -> Failure:
    log.error("failed to allocate handle, ret: -1, errno: 12, errstr: Cannot allocate memory")
    return Failure(
        ErrorCode.MALLOC_FAIL, f"failed to malloc npu memory, size: {size}, flags: {flags:#x}"
    )
