"""Join the operators of an ONNX model that an NPU computes in one pass.

After its convolution unit an NPU has an output stage that adds a bias, scales, applies an
activation and adds a second tensor on the way to memory. So a convolution and what follows it are
one operator of the device, whose name says the parts: ConvRelu, ConvAddRelu, ConvExSwish (as
Rockchip's runtime calls x * sigmoid(x) after a convolution).
"""

from __future__ import annotations

import math

from .operators import (
    SIMPLE_ACTIVATIONS,
    TABLE_ACTIVATIONS,
    Operator,
    Stage,
    count_takers,
)
from .tensors import Tensors

_SCALES = frozenset({"Add", "BatchNormalization", "Div", "Mul", "Sub"})
_NAMES_WHEN_JOINED = {"Swish": "ExSwish"}


def fuse(found: list[Operator], tensors: Tensors) -> list[Operator]:
    """The operators (changed in place) as the device runs them, in the order of execution."""
    fusion = _Fusion(found, tensors)
    for operator in found:
        fusion.take(operator)
    return list(fusion.operators.values())


class _Fusion:
    """Takes operators in their order, and joins each to an earlier one where the device can."""

    def __init__(self, found: list[Operator], tensors: Tensors) -> None:
        self.operators: dict[str, Operator] = {}  # by the first tensor that each makes
        self._tensors = tensors
        self._takers = count_takers(found, tensors)

    def take(self, operator: Operator) -> None:
        earlier = self._join(operator) if operator.inputs else None
        if earlier is not None:
            # It runs when all of its inputs are there: in the joined operator's place.
            del self.operators[earlier.outputs[0]]
            earlier.outputs = operator.outputs
        self.operators[operator.outputs[0]] = earlier or operator

    def _join(self, operator: Operator) -> Operator | None:
        """The earlier operator that does this one's work from now on, None where there is none."""
        kind = operator.op_type
        if kind in SIMPLE_ACTIVATIONS or kind in TABLE_ACTIVATIONS:
            return self._join_activation(operator)
        if kind == "Add" and not any(map(self._tensors.is_constant, operator.inputs)):
            return self._join_sum(operator)
        return self._join_scale(operator) if kind in _SCALES else None

    def _maker(self, name: str) -> Operator | None:
        """Who makes a tensor that nothing else takes."""
        root = self._tensors.root(name)
        return self.operators.get(root) if self._takers[root] == 1 else None

    def _join_activation(self, operator: Operator) -> Operator | None:
        maker = self._maker(operator.inputs[0])
        if maker is None:
            return None
        if maker.stage is Stage.CONVOLVED:
            maker.stage = Stage.FINISHED if operator.uses_table else Stage.ACTIVATED
        elif maker.stage is Stage.SUMMED and not operator.uses_table:
            maker.stage = Stage.FINISHED
        else:
            return None
        maker.op_type += _NAMES_WHEN_JOINED.get(operator.op_type, operator.op_type)
        maker.uses_table = operator.uses_table
        maker.inputs += operator.inputs[1:]
        return maker

    def _join_sum(self, operator: Operator) -> Operator | None:
        """The later maker of the two summands adds the other one to its result."""
        shapes = {self._tensors.shape(name) for name in operator.inputs}
        if len(operator.inputs) != 2 or len(shapes) != 1:
            return None
        for maker in reversed(self.operators.values()):
            for name, other in (operator.inputs, operator.inputs[::-1]):
                if maker is self._maker(name) and maker.stage <= Stage.ACTIVATED:
                    maker.stage = Stage.SUMMED
                    maker.op_type += "Add"
                    maker.inputs.append(other)
                    return maker
        return None

    def _join_scale(self, operator: Operator) -> Operator | None:
        """A factor or summand right after a convolution goes into the weights and the bias."""
        value, *constants = operator.inputs
        if operator.op_type in ("Add", "Mul") and self._tensors.is_constant(value):
            value, *constants = operator.inputs[::-1]
        maker = self._maker(value)
        if maker is None:
            return None
        if maker.stage is Stage.CONVOLVED and all(map(self._is_vector_constant, constants)):
            maker.is_scaled = True
            return maker
        is_sixth = operator.op_type == "Div" and maker.op_type.endswith("HardSwish")
        if is_sixth and all(map(self._tensors.is_scalar_constant, constants)):
            return maker  # the last step of x * clip(x + 3, 0, 6) / 6
        return None

    def _is_vector_constant(self, name: str) -> bool:
        """Whether a tensor is constant and has one axis at most, sizes of 1 aside."""
        shape = self._tensors.shape(name)
        is_vector = shape is not None and math.prod(shape) == max(shape, default=1)
        return is_vector and self._tensors.is_constant(name)
