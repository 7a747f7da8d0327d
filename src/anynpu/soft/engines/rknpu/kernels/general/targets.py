"""Where results go: straight into memory, or through space that threads share.

Channel blocks are written in place. Writers that rearrange atoms, and those that would overwrite
what is still to be read, get all results at once from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of
from ...layout import Written, feature_views, operand_view
from ...memory import Memory, Strided
from ...tasks import BlockWriter, Dpu, Features, PhaseWriter
from ...weights import StoredOperand
from .. import structures
from ..aliasing import in_place, share_bytes
from ..rearranging import write_atoms
from ..steps import KernelStep


class Target:
    """What a task writes: features of a shape (C, H, W), of elements of a given number of bytes.

    `reads` is what it reads before or after it writes in the same place, `in_step` what it reads
    atom by atom just before that.
    """

    def __init__(
        self,
        target: Written,
        shape: tuple[int, int, int],
        size: int,
        reads: Sequence[Features | Strided],
        in_step: Sequence[Features] = (),
    ) -> None:
        self._written, self._writer, self._shape = target, target.writer, shape
        self.atoms = target.atoms
        self._atom = self.atoms[-1]
        self._lanes = self._atom // size
        late = [*reads, *(read for read in in_step if not self._is_in_place(read))]
        self._is_direct = isinstance(self._writer, BlockWriter | PhaseWriter) and not any(
            overlaps(read, view) for read in late for view in target.views
        )
        self.shared_bytes = 0 if self._is_direct else prod(self.atoms)

    @property
    def is_direct(self) -> bool:
        """Whether results go straight to where they are to lie."""
        return self._is_direct

    @property
    def is_known(self) -> bool:
        """Whether the kernels' groups hold whole atoms."""
        return self._lanes > 0 and structures.GROUP % self._lanes == 0

    def _is_in_place(self, read: Features) -> bool:
        # What is one for all channels is read again after the first of them have been written.
        is_whole = read.channels == self._shape[0] and read.lanes == self._lanes
        return is_whole and in_place(read, self._writer)

    def bind(
        self, memory: Memory, shared: NDArray[np.uint8]
    ) -> tuple[structures.Writer, Sequence[KernelStep]]:
        """The kernels' writer, and what is to be done when they have run."""
        channels, height, width = self._shape
        writer = self._writer
        if self._is_direct and isinstance(writer, PhaseWriter):
            base = memory.pointer(*self._written.views, writeable=True)
            result = structures.Writer(
                base, writer.line, writer.pixel, writer.surface, self.atoms[0], 0, width
            )
        elif self._is_direct and isinstance(writer, BlockWriter):
            base = memory.pointer(*self._written.views, writeable=True)
            result = structures.Writer(
                base, writer.line, writer.atom, writer.surface, writer.group, writer.group_stride,
                writer.width,
            )  # fmt: skip
        else:
            line = width * self._atom
            result = structures.Writer(
                address_of(shared), line, self._atom, height * line, self.atoms[0], 0, width
            )
        result.channels, result.lanes = channels, self._lanes
        if isinstance(writer, BlockWriter | PhaseWriter):
            result.padding = writer.padding & 0xFFFF
        if self._is_direct:
            return result, ()
        atoms = shared[: self.shared_bytes].reshape(self.atoms)
        return result, write_atoms(atoms, self._written, memory)


def overlaps(read: Features | Strided, written: Strided) -> bool:
    """Whether what is read and what is written may share bytes."""
    views = feature_views(read) if isinstance(read, Features) else (read,)
    return share_bytes(views, (written,))


def read_operands(dpu: Dpu) -> list[Features]:
    """What the third stage reads."""
    operand = dpu.features_operand
    return [] if operand is None else [operand]


def stored_operands(dpu: Dpu) -> list[Strided]:
    """What the first two stages read from memory that tasks write."""
    stages = [stage for stage in (dpu.bs, dpu.bn) if stage]
    return [
        operand_view(operand)
        for stage in stages
        for operand in (stage.add, stage.multiply)
        if isinstance(operand, StoredOperand)
    ]
