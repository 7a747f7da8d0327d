"""What decoding needs besides a task's registers."""

from __future__ import annotations

import math

from .....errors import ModelError
from ..elements import Address
from ..generations import Generation
from ..layout import feature_views, operand_view, weight_view, written
from ..memory import MemoryMap
from ..tasks import Features, Task
from ..weights import (
    Operand,
    OperandBlock,
    StoredOperand,
    WeightLayout,
    Weights,
    unpack_operands,
)

_MOST_ELEMENTS = 1 << 28
_MOST_PRODUCTS = 1 << 40


class Context:
    """The chip, the memory, and what was unpacked already: tasks of a node often share weights.

    With `pictures_are_quantised` a picture isn't what its task's registers convert to int8, the
    bytes of a camera, but what that gives.
    """

    def __init__(
        self, generation: Generation, memory: MemoryMap, *, pictures_are_quantised: bool = False
    ) -> None:
        self.generation = generation
        self.memory = memory
        self.pictures_are_quantised = pictures_are_quantised
        self._weights: dict[tuple[Address, WeightLayout], Weights] = {}

    def weights(self, address: Address, layout: WeightLayout) -> Weights:
        """Unpacked weights, or a note to read them at run time if another task computes them."""
        known = self._weights.get((address, layout))
        if known is None:
            known = Weights(address, layout, None)
            if self.memory.is_constant(address.section):
                known = Weights(address, layout, self.memory.constant(weight_view(known)))
            else:
                self.memory.check(weight_view(known))
            self._weights[address, layout] = known
        return known

    def operands(self, address: Address, block: OperandBlock) -> dict[str, Operand]:
        """The parts of an operand block, by name."""
        stored = {name: StoredOperand(address, block, name) for name, _ in block.parts}
        view = operand_view(next(iter(stored.values())))
        if self.memory.is_constant(address.section):
            return dict(unpack_operands(self.memory.constant(view), block))
        self.memory.check(view)
        return dict(stored)

    def check_size(self, shape: tuple[int, ...], products: int = 1) -> None:
        """Raise `ModelError` for results, or sums of so many products each, that no NPU computes.

        Strides of zero let a few bytes of memory stand for any number of elements.
        """
        elements = math.prod(shape)
        if elements > _MOST_ELEMENTS or elements * products > _MOST_PRODUCTS:
            raise ModelError(f"{elements} results of {products} products each are too many")

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
