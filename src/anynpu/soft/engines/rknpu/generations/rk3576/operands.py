"""Where RK3576's arithmetic stages take their operands from.

A stage's DMA has four bits for numbers that hold for all channels, which lie in a small tensor of
the stage, and three bits for those of each channel, which lie in another as on RK3588.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...registers.blocks import Enabled
from ...registers.fields import sign_extend
from ...registers.quantities import Quantity
from ...task_registers import TaskRegisters
from ..settings import FromMemory
from .rdma import RdmaBn, RdmaBs

ADDENDS, WEIGHT_OFFSETS, FACTORS = 1, 2, 4
"""The operands of each channel that a block in memory has."""


@dataclass(frozen=True)
class Operands:
    """What a stage adds and multiplies by; numbers are words, None where there is none.

    `shifts` are those of positive and of negative values, `block` says which operands of each
    channel lie in memory.
    """

    add: int | None = None
    weight_offset: int | None = None
    multiply: int | None = None
    shifts: tuple[int, int] = (0, 0)
    block: int = 0

    @property
    def addend(self) -> int | FromMemory | None:
        """What is added."""
        return FromMemory.BLOCK if self.block & ADDENDS else self.add

    @property
    def factor(self) -> int | FromMemory | None:
        """What is multiplied by."""
        return FromMemory.BLOCK if self.block & FACTORS else self.multiply


def read_operands(
    task: TaskRegisters, use: type[RdmaBs] | type[RdmaBn], block: Quantity, numbers: Quantity
) -> Operands:
    """The operands of a stage, by its DMA's configuration.

    The tensor of numbers has eight channels of each part: 32 bytes of the addend, 16 of each other.
    """
    if not task.state.enable_mask & Enabled.RDMA:
        return Operands()
    sizes = {use.ADD: 32, use.WEIGHT_OFFSET: 16, use.MULTIPLY: 16, use.SHIFT: 16}
    present = {field: size for field, size in sizes.items() if task[field]}
    data = task.constants(numbers, sum(present.values())) if present else b""
    parts = {}
    for field, size in present.items():
        parts[field], data = data[:size], data[size:]
    shifts = parts.get(use.SHIFT, bytes(2))
    weight_offset = _word(parts.get(use.WEIGHT_OFFSET), 2)
    found = Operands(
        _word(parts.get(use.ADD), 4),
        None if weight_offset is None else sign_extend(weight_offset, 16),
        _word(parts.get(use.MULTIPLY), 2),
        (shifts[0], shifts[1]),
        task[block],
    )
    if any(found.shifts) and found.factor is None:
        raise task.error(use, "it shifts without a factor")
    return found


def _word(part: bytes | None, size: int) -> int | None:
    return None if part is None else int.from_bytes(part[:size], "little")
