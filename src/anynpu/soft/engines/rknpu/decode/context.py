"""What decoding needs besides a task's registers."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from .....errors import ModelError
from ..elements import Address
from ..generations import Generation
from ..layout import feature_views, operand_view, weight_view, written
from ..memory import MemoryMap, span
from ..tasks import Features, Task
from ..weights import (
    Operand,
    OperandBlock,
    StoredOperand,
    WeightLayout,
    Weights,
    unpack_operands,
)
from ..work import MOST_ELEMENTS
from .remembered import Remembered

_TIMES_UNPACKED, _LEAST_UNPACKED = 8, 1 << 26
"""How many times a file's bytes may be unpacked as weights and operands, and how many bytes may be
in any case: a sound file has each weight once, and operands for each tile."""


class Context:
    """The chip, the memory, and what was unpacked already: tasks of a node often share weights and
    operands. Operands of the same content are the same arrays.

    With `pictures_are_quantised` a picture isn't what its task's registers convert to int8, the
    bytes of a camera, but what that gives.
    """

    def __init__(
        self, generation: Generation, memory: MemoryMap, *, pictures_are_quantised: bool = False
    ) -> None:
        self.generation = generation
        self.memory = memory
        self.pictures_are_quantised = pictures_are_quantised
        self.remembered = Remembered()
        self._weights: dict[tuple[Address, WeightLayout], Weights] = {}
        self._operands: dict[tuple[OperandBlock, bytes], dict[str, NDArray[Any]]] = {}
        size = sum(section.size for section in memory.sections.values())
        self._may_unpack = max(_TIMES_UNPACKED * size, _LEAST_UNPACKED)

    def weights(self, address: Address, layout: WeightLayout) -> Weights:
        """Unpacked weights, or a note to read them at run time if another task computes them."""
        known = self._weights.get((address, layout))
        if known is None:
            known = Weights(address, layout, None)
            if self.memory.is_constant(address.section):
                self._unpack(layout.bytes)
                known = Weights(address, layout, self.memory.constant(weight_view(known)))
            else:
                self.memory.check(weight_view(known))
            self._weights[address, layout] = known
        return known

    def constant_bytes(self, address: Address, count: int) -> bytes:
        """`count` bytes that no task writes; raises `ModelError` for others."""
        if not self.memory.is_constant(address.section):
            raise ModelError("it points to what tasks write")
        return self.memory.constant(span(address, count)).tobytes()

    def operands(self, address: Address, block: OperandBlock) -> dict[str, Operand]:
        """The parts of an operand block, by name."""
        stored = {name: StoredOperand(address, block, name) for name, _ in block.parts}
        view = operand_view(next(iter(stored.values())))
        if self.memory.is_constant(address.section):
            key = block, self.memory.constant(view).tobytes()
            self._unpack(block.bytes)
            known = self._operands.get(key)
            if known is None:
                known = self._operands[key] = unpack_operands(self.memory.constant(view), block)
                for array in known.values():
                    array.flags.writeable = False
            return dict(known)
        self.memory.check(view)
        return dict(stored)

    def _unpack(self, size: int) -> None:
        self._may_unpack -= size
        if self._may_unpack < 0:
            raise ModelError("the tasks read the file's weights and operands without end")

    def check_size(self, shape: tuple[int, ...]) -> None:
        """Raise `ModelError` for more elements than any NPU computes in a task.

        Strides of zero let a few bytes of memory stand for any number of elements.
        """
        elements = math.prod(shape)
        if elements > MOST_ELEMENTS:
            raise ModelError(f"{elements} elements are more than the {MOST_ELEMENTS} of a task")

    def check_features(self, features: Features) -> Features:
        """The features, when all their bytes lie in memory."""
        self.check_size(features.shape)
        for view in feature_views(features):
            self.memory.check(view)
        return features

    def check_written(self, task: Task) -> None:
        """Raise `ModelError` where a task writes outside of memory."""
        target = written(task)
        self.check_size(target.atoms)
        for view in target.views:
            self.memory.check(view, writes=True)
