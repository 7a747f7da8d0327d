"""The operators of an ONNX model that compute something on a device, one for each activation.

ONNX writes some activations as several operators: x * sigmoid(x) as two, and exporters write
HardSwish as x * clip(x + 3, 0, 6) / 6. A device computes each with one look-up table.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ModelProto, NodeProto

from ....tensor import DType
from .tensors import RENAMING, Tensors

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
SIMPLE_ACTIVATIONS = frozenset({"Clip", "LeakyRelu", "PRelu", "Relu", "ThresholdedRelu"})
"""Computed by comparing and multiplying, at the output stage's full rate."""
TABLE_ACTIVATIONS = frozenset({
    "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Log", "Mish", "Selu",
    "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh",
})  # fmt: skip
"""Computed with a look-up table."""

_GATED = {"Sigmoid": "Swish", "HardSigmoid": "HardSwish"}
"""What x * f(x) is for each f."""
_WITHOUT_WEIGHTS = frozenset({"Clip", "Pad", "Resize", "Slice", "Split", "Tile", "Upsample"})
"""Operators whose constant inputs are settings, not data."""


class Stage(enum.IntEnum):
    """How far through the device's output stage an operator has come."""

    CONVOLVED = 0
    ACTIVATED = 1
    SUMMED = 2
    FINISHED = 3


@dataclass(eq=False)
class Operator:
    """A node, and later what was joined to it.

    `inputs` names the tensors it reads, data and weights; `outputs` those it writes. `is_scaled`
    says that a normalisation was folded into its weights, so that it has a bias.
    """

    node: NodeProto
    op_type: str
    inputs: list[str]
    outputs: list[str]
    stage: Stage = Stage.FINISHED
    is_scaled: bool = False
    uses_table: bool = False

    @property
    def name(self) -> str:
        """The node's name, or that of its output where the node has none."""
        return self.node.name or self.node.output[0]


def operators(model: ModelProto, tensors: Tensors) -> list[Operator]:
    """The operators in the order of the model's nodes."""
    found = []
    for node in model.graph.node:
        outputs = [name for name in node.output if name]
        is_renaming = node.op_type in RENAMING and any(node.input)
        if not is_renaming and not all(map(tensors.is_constant, outputs)):
            found.append(_operator(node, outputs, tensors))
    return _Gates(found, tensors).joined()


def count_takers(found: Iterable[Operator], tensors: Tensors) -> Counter[str]:
    """How many inputs each stored tensor feeds, plus two where more than operators take it."""
    takers = Counter(tensors.root(name) for operator in found for name in operator.inputs)
    return takers + Counter({root: 2 for root in takers if tensors.is_kept(root)})


def _operator(node: NodeProto, outputs: list[str], tensors: Tensors) -> Operator:
    # The device folds a normalisation's mean and variance into its scale and shift.
    names = node.input[:3] if node.op_type == "BatchNormalization" else node.input
    inputs = [name for name in names if name and not _is_setting(name, node, tensors)]
    uses_table = node.op_type in TABLE_ACTIVATIONS
    return Operator(node, node.op_type, inputs, outputs, _stage(node), uses_table=uses_table)


def _is_setting(name: str, node: NodeProto, tensors: Tensors) -> bool:
    """Whether an input is part of the node's description (axes, limits), not data."""
    is_index = tensors.dtype(name) in (DType.INT64, DType.BOOL)
    return tensors.is_constant(name) and (is_index or node.op_type in _WITHOUT_WEIGHTS)


def _stage(node: NodeProto) -> Stage:
    if node.op_type in CONVOLUTIONS:
        return Stage.CONVOLVED
    if node.op_type == "BatchNormalization":
        return Stage.SUMMED  # alone it is a pass of its own, with an activation at most
    return Stage.FINISHED


class _Gates:
    """Finds multiplications of a tensor by a function of itself."""

    def __init__(self, found: list[Operator], tensors: Tensors) -> None:
        self._found = found
        self._tensors = tensors
        self._makers = {name: operator for operator in found for name in operator.outputs}
        self._takers = count_takers(found, tensors)

    def joined(self) -> list[Operator]:
        """All operators, each such multiplication now an activation in place of its parts."""
        absorbed: set[Operator] = set()
        for operator in self._found:
            if operator.op_type == "Mul" and len(operator.inputs) == 2:
                absorbed.update(self._turn_into_activation(operator))
        return [operator for operator in self._found if operator not in absorbed]

    def _turn_into_activation(self, product: Operator) -> list[Operator]:
        """Change a multiplication where it is an activation; returns the parts it absorbs."""
        for value, gate in (product.inputs, product.inputs[::-1]):
            parts, source = self._gate(gate)
            if parts and self._tensors.root(source) == self._tensors.root(value):
                product.op_type = _GATED.get(parts[0].op_type, "HardSwish")
                product.inputs = [value]
                product.uses_table = True
                return parts
        return []

    def _gate(self, name: str) -> tuple[list[Operator], str]:
        """The operators that make f(x) or f(x + constant) for `name`; and x.

        f is a function of `_GATED`, or a Clip of such a sum; the constant may be a factor, too.
        """
        function = self._maker(name)
        if function is None or function.op_type not in (*_GATED, "Clip"):
            return [], ""
        shift = self._maker(function.inputs[0])
        if shift is not None and shift.op_type in ("Add", "Mul"):
            values = [n for n in shift.inputs if not self._tensors.is_scalar_constant(n)]
            if len(values) == 1:
                return [function, shift], values[0]
        return ([function], function.inputs[0]) if function.op_type in _GATED else ([], "")

    def _maker(self, name: str) -> Operator | None:
        """Who makes a tensor of others, if only one operator takes it."""
        root = self._tensors.root(name)
        maker = self._makers.get(root) if self._takers[root] == 1 else None
        return maker if maker is not None and maker.inputs else None
