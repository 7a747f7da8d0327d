"""Which work items a shader has, and what their registers begin with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...refusal import Unknown
from ..shader import Shader

_DIMENSIONS, _ORDER = 0x900, {3: ("item", "local", "group"), 5: ("local", "item", "group")}
"""The register with the number of dimensions, and by its bits 24 to 26, what comes in which of the
first three registers."""

_OFFSETS, _COUNTS, _SIZES, _SCALES = (0x92C, 0x934, 0x93C), 0x940, 0x94C, 0x958
_INPUTS, _TEMPORARIES, _LENGTH, _LAST = 0x1008, 0x100C, 0x1090, 0x1094

_FIXED: Mapping[int, int] = {
    0x804: 1, 0x830: 0x0F3F0000, 0x868: 1, 0x87C: 0, 0x8A0: 0, 0x8B8: 0x80, 0x920: 0xBADABEEB,
    0xAA8: 0, 0x1010: 0xF00, 0x1024: 0, 0x1028: 0, 0x1030: 0, 0x1048: 0, 0x1058: 0, 0x109C: 0,
    0x3808: 0x701, 0x380C: 0x24, 0x3888: 0x7F0000, 0x389C: 0, 0x15600: 2,
}  # fmt: skip
"""What else is said of every shader, and always the same.

Register 0x91C says how items are put on threads, which makes no difference.
"""

_WITH_GROUPS: Mapping[int, int] = {0xA30: 0x300, 0xA90: 0x22, 0x1080: 0x22, 0x381C: 4}
_WITHOUT: Mapping[int, int] = {0xA30: 0x100, 0xA90: 0, 0x1080: 0, 0x381C: 0}
"""The same of those that get all three, and of those that get the first alone."""

_FEW = (0, 0x100000, 0x300000)
"""What register 0x924 says of very few work items."""

MOST_ITEMS, MOST_OF_GROUP = 1 << 26, 1 << 10
MOST_REGISTERS = 64
_MOST_AT_ONCE = 1 << 14
"""Work items of which registers are held at once, where a group isn't larger."""

_AXES = 3


@dataclass(frozen=True)
class Launch:
    """Work items in groups; all of three axes, the innermost first."""

    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    scales: tuple[int, ...]
    offsets: tuple[int, ...]
    inputs: tuple[str, ...]
    registers: int
    instructions: int

    @property
    def items(self) -> int:
        return math.prod(self.counts) * math.prod(self.sizes)

    @property
    def group_size(self) -> int:
        return math.prod(self.sizes)

    def parts(self, most_groups: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """Work items in turn: how many groups, and registers as (register, item, component)."""
        groups = math.prod(self.counts)
        at_once = max(1, min(_MOST_AT_ONCE // self.group_size, most_groups))
        for first in range(0, groups, at_once):
            count = min(at_once, groups - first)
            yield count, self._registers(np.arange(first, first + count))

    def _registers(self, groups: NDArray[np.int64]) -> NDArray[np.uint32]:
        locals_ = np.arange(self.group_size)
        found = np.zeros((self.registers, groups.size * self.group_size, 4), np.uint32)
        for axis in range(_AXES):
            group = groups // math.prod(self.counts[:axis]) % self.counts[axis]
            local = locals_ // math.prod(self.sizes[:axis]) % self.sizes[axis]
            group, local = np.repeat(group, local.size), np.tile(local, group.size)
            values = {
                "group": group,
                "local": local,
                "item": self.offsets[axis] + (group * self.sizes[axis] + local) * self.scales[axis],
            }
            for register, name in enumerate(self.inputs):
                found[register, :, axis] = values[name]
        return found


def launch_of(shader: Shader) -> Launch:
    """The work items that a shader's registers ask for; raises `Unknown` for other forms."""
    _expect(shader, _FIXED)
    dimensions, order = shader.state(_DIMENSIONS) & 3, shader.state(_DIMENSIONS) >> 24
    if dimensions not in (2, 3) or order not in _ORDER:
        raise Unknown(f"work items in the form {shader.state(_DIMENSIONS):#x}")
    if shader.state(_DIMENSIONS) != order << 24 | dimensions:
        raise Unknown(f"work items in the form {shader.state(_DIMENSIONS):#x}")
    if shader.state(0x924) not in _FEW:
        raise Unknown(f"work items with {shader.state(0x924):#x} in register 0x924")
    inputs = shader.state(_INPUTS)
    if inputs not in (0x1F01, 0x1F03):
        raise Unknown(f"work items with {inputs:#x} in register {_INPUTS:#x}")
    _expect(shader, _WITH_GROUPS if inputs & 15 == _AXES else _WITHOUT)

    def of(first: int, mask: int, plus: int) -> tuple[int, ...]:
        values = (shader.state(first + 4 * axis) for axis in range(dimensions))
        return (*((value & mask) + plus for value in values),) + (1,) * (_AXES - dimensions)

    counts, sizes = of(_COUNTS, 0xFFFFFFFF, 1), of(_SIZES, 0x3FF, 1)
    offsets = tuple(shader.state(register) for register in _OFFSETS)
    launch = Launch(
        counts,
        sizes,
        of(_SCALES, 0xFFFF, 0),
        offsets,
        _ORDER[order][: inputs & 15],
        shader.state(_TEMPORARIES),
        shader.state(_LENGTH),
    )
    if launch.items > MOST_ITEMS:
        raise Unknown(f"{launch.items} work items")
    if launch.group_size > MOST_OF_GROUP:
        raise Unknown(f"{launch.group_size} work items in a group")
    if not len(launch.inputs) <= launch.registers <= MOST_REGISTERS:
        raise Unknown(f"{launch.registers} registers of each work item")
    if shader.state(_LAST) != launch.instructions - 1:
        raise Unknown(f"a program of {launch.instructions} instructions")
    if any(offset >> 16 for offset in offsets):
        raise Unknown(f"work items from {offsets} on")
    return launch


def _expect(shader: Shader, registers: Mapping[int, int]) -> None:
    for register, value in registers.items():
        if shader.state(register) != value:
            raise Unknown(f"work items with {shader.state(register):#x} in register {register:#x}")
