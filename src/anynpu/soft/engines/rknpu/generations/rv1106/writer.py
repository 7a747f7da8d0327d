"""What RV1106's DPU says of its writer."""

from __future__ import annotations

from ...elements import Address, Element
from ...registers.blocks import Enabled
from ...registers.fields import Register
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import RowWriter
from ..rk3588.dpu import (
    DpuChannel,
    DpuHeight,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    DpuWriteSize0,
    DpuWriteSize1,
)
from ..rk3588.rdma import RdmaHeight, RdmaSourceDma, RdmaSurfaceNotch
from .registers import (
    ATOM,
    FIRST_TWO_BYTES,
    KEPT_KINDS,
    DpuBsOw,
    DpuFeatureMode,
    DpuRows,
    DpuWidth,
    RdmaFeatureMode,
)

_TRANSPOSED = 8
_TWO_BYTES_KIND = 3
"""The kind of packing that keeps two bytes of every atom."""


def check_writer(task: TaskRegisters) -> None:
    """Raise `ModelError` for what isn't known of the writer's registers together."""
    kind, packs = task[DpuFeatureMode.RGP_TYPE], task[Quantity.PACKS]
    if packs and task[DpuFeatureMode.TP_EN]:
        # The first two bytes of every atom, side by side, whatever the order of equal ones.
        if kind != FIRST_TWO_BYTES:
            raise task.error(DpuFeatureMode)
    elif not packs and kind not in KEPT_KINDS:
        raise task.error(DpuFeatureMode.RGP_TYPE)
    if task.word(DpuRows) and not _packs_rows(task):
        raise task.error(DpuRows)
    sizes = {task[field] for field in (DpuBsOw.SIZE_E_0, DpuBsOw.SIZE_E_1, DpuBsOw.SIZE_E_2)}
    if len(sizes) > 1 or (task[DpuBsOw.TRANSPOSES_LANES] and task[DpuBsOw.TRANSPOSES_ATOMS]):
        raise task.error(DpuBsOw)


def _packs_rows(task: TaskRegisters) -> bool:
    return bool(task[Quantity.PACKS] and not task[DpuFeatureMode.TP_EN])


def row_writer(
    task: TaskRegisters, shape: tuple[int, int, int], address: Address
) -> RowWriter | None:
    """Rows that end within an atom, from or to rows of whole atoms; None where there are none."""
    if not _packs_rows(task):
        return None
    surfaces, height, width = shape
    rest, rows = task[DpuFeatureMode.RGP_TYPE], task[DpuRows.ROWS]
    if not rows:
        row = width * ATOM
        kept = row - ATOM + rest
        return RowWriter(address, surfaces * height, row, kept, kept) if rest else None
    row = task[DpuWidth.ROW_BYTES]
    pitch, odd = divmod(task[Quantity.PACKED_ATOMS] * ATOM, rows)
    if rest or odd or not row or pitch < row or rows * row > surfaces * height * width * ATOM:
        raise task.error(DpuFeatureMode, f"{rows} rows of {row} bytes are not known")
    return RowWriter(address, rows, row, row, pitch)


def _transposes_atoms(task: TaskRegisters) -> int:
    return task[DpuFeatureMode.TP_EN] and not task[Quantity.PACKS]


def _packed_kind(task: TaskRegisters) -> int:
    return _TWO_BYTES_KIND if task[DpuFeatureMode.TP_EN] else 0


def _transposes_pixels(task: TaskRegisters) -> int:
    return task[DpuBsOw.TRANSPOSES_LANES] or task[DpuBsOw.TRANSPOSES_ATOMS]


def _transposed_bytes(task: TaskRegisters) -> int:
    if task[DpuBsOw.TRANSPOSES_ATOMS]:
        return ATOM
    return 2 if task[DpuWriteSize0.TP_PRECISION] else 1


def _transposed_pixels(task: TaskRegisters) -> int:
    return task[DpuBsOw.SIZE_E_0] if task[DpuBsOw.TRANSPOSES_ATOMS] else _TRANSPOSED


def _joined_surfaces(task: TaskRegisters) -> int:
    """How many surfaces of one line are written as one longer line, 0 where they are not.

    They are taken as the surfaces that they are.
    """
    if task.state.enable_mask & Enabled.CNA or not task.has(RdmaFeatureMode):
        return 0
    width, channels = task[Quantity.SOURCE_WIDTH], task[Quantity.SOURCE_CHANNELS]
    lanes = ATOM // Element(task[Quantity.SOURCE_ELEMENT]).size
    count, rest = divmod(channels, lanes)
    one_line = not any(
        task.word(register) for register in (RdmaHeight, RdmaSourceDma, RdmaSurfaceNotch, DpuHeight)
    )
    says = task.own(Quantity.CHANNELS), task.own(Quantity.OWN_CHANNELS), task.own(Quantity.WIDTH)
    is_joined = says == (lanes, lanes, width * count)
    return count if count > 1 and not rest and one_line and is_joined else 0


def _of_joined(usual: Quantity, joined: Quantity | None, where: type[Register]) -> Derived:
    """A quantity that another one tells where surfaces are joined; 1 for None."""

    def value(task: TaskRegisters) -> int:
        if not task[Quantity.JOINED_SURFACES]:
            return task.own(usual)
        return 1 if joined is None else task[joined]

    return Derived(value, where)


def _surface(task: TaskRegisters) -> int:
    if not task[Quantity.JOINED_SURFACES]:
        return task.own(Quantity.TARGET_SURFACE)
    return task[Quantity.SOURCE_WIDTH] * ATOM


def _group(task: TaskRegisters) -> int:
    if not task[Quantity.JOINED_SURFACES]:
        return task.own(Quantity.TARGET_GROUP)
    return task[Quantity.SOURCE_WIDTH] * ATOM


DERIVED = {
    Quantity.TRANSPOSES_ATOMS: Derived(_transposes_atoms, DpuFeatureMode.TP_EN),
    Quantity.TRANSPOSES_PIXELS: Derived(_transposes_pixels, DpuBsOw),
    Quantity.TRANSPOSED_BYTES: Derived(_transposed_bytes, DpuBsOw),
    Quantity.TRANSPOSED_PIXELS: Derived(_transposed_pixels, DpuBsOw.SIZE_E_0),
    Quantity.PACKED_KIND: Derived(_packed_kind, DpuFeatureMode.RGP_TYPE),
    Quantity.JOINED_SURFACES: Derived(_joined_surfaces, DpuWidth),
    Quantity.CHANNELS: _of_joined(Quantity.CHANNELS, Quantity.SOURCE_CHANNELS, DpuChannel),
    Quantity.OWN_CHANNELS: _of_joined(Quantity.OWN_CHANNELS, Quantity.SOURCE_CHANNELS, DpuChannel),
    Quantity.WIDTH: _of_joined(Quantity.WIDTH, Quantity.SOURCE_WIDTH, DpuWidth),
    Quantity.WRITTEN_WIDTH: _of_joined(
        Quantity.WRITTEN_WIDTH, Quantity.SOURCE_WIDTH, DpuWriteSize1
    ),
    Quantity.WRITTEN_HEIGHT: _of_joined(Quantity.WRITTEN_HEIGHT, None, DpuWriteSize1),
    Quantity.TARGET_SURFACE: Derived(_surface, DpuSurfaceStride),
    Quantity.TARGET_GROUP: Derived(_group, DpuSurfaceAdd),
}
