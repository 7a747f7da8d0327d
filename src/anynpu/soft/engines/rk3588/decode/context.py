"""What decoding needs besides a task's registers."""

from __future__ import annotations

import math

from .....errors import ModelError
from ..elements import Address
from ..generations import Generation
from ..layout import feature_views, target_views
from ..memory import MemoryMap, Strided
from ..tasks import Features, Writer
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
            data = None
            if self.memory.is_constant(address.section):
                data = self.memory.constant(address, layout.bytes)
            else:
                self.memory.check(Strided(address, (layout.bytes,), (1,)))
            known = self._weights[address, layout] = Weights(address, layout, data)
        return known

    def operands(self, address: Address, block: OperandBlock) -> dict[str, Operand]:
        """The parts of an operand block, by name."""
        if self.memory.is_constant(address.section):
            values = unpack_operands(self.memory.constant(address, block.bytes), block)
            return dict(values)
        self.memory.check(Strided(address, (block.bytes,), (1,)))
        return {name: StoredOperand(address, block, name) for name, _ in block.parts}

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

    def check_writer(self, writer: Writer, shape: tuple[int, int, int, int]) -> Writer:
        """The writer, when all bytes that it fills for atoms of this shape lie in memory."""
        self.check_size(shape)
        for view in target_views(writer, shape):
            self.memory.check(view, writes=True)
        return writer
