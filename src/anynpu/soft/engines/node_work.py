"""How much work a node that ONNX Runtime computes is at most, as far as that depends on shapes.

Most operators look at each element a few times. The others are told apart by name: products are
counted, windows are no larger than what they lie in, and of what remains every result may look at
every element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ModelError

if TYPE_CHECKING:
    from onnx import NodeProto

_PER_ELEMENT = 200
"""What looking at an element costs, in products of a dense convolution by the NPU's kernels."""

_PER_PRODUCT = 4

_WINDOWS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_ALL_TO_ALL = frozenset(
    {
        "Attention", "CausalConvWithState", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DFT",
        "DeformConv", "Det", "Einsum", "GRU", "Gemm", "LRN", "LSTM", "LinearAttention", "MatMul",
        "MatMulInteger", "MaxRoiPool", "MelWeightMatrix", "NonMaxSuppression", "QLinearConv",
        "QLinearMatMul", "RNN", "RegexFullMatch", "STFT", "ScatterElements", "ScatterND",
        "TensorScatter", "TfIdfVectorizer", "Unique",
    }
)  # fmt: skip
SAMPLER = "RoiAlign"
"""It takes as many samples as regions are large, where its attribute doesn't say how many."""

Shape = tuple[int, ...]


def node_work(
    node: NodeProto,
    attributes: Mapping[str, Any],
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
) -> float:
    """The work of one node; raises `ModelError` where it follows from values alone.

    `inputs` and `outputs` are the shapes that are known.
    """
    least = element_work(node.op_type, attributes, inputs, outputs)
    if node.op_type not in _ALL_TO_ALL:
        return least
    from .onnx.work import NONE, work

    results, elements = (sum(map(math.prod, shapes)) for shapes in (outputs, inputs))
    found = work(node, list(inputs), outputs[0] if outputs else None)
    products = results * max(elements, 1) if found is NONE else found.macs
    return least + products * _PER_PRODUCT


def element_work(
    op_type: str, attributes: Mapping[str, Any], inputs: Sequence[Shape], outputs: Sequence[Shape]
) -> float:
    """The work of a node of an operator that doesn't multiply all by all.

    Nothing of onnx is imported for it. Raises `ModelError` as `node_work`.
    """
    results, elements = (sum(map(math.prod, shapes)) for shapes in (outputs, inputs))
    least = _PER_ELEMENT * (results + elements)
    if op_type in _WINDOWS:
        places = _window(attributes, inputs[0] if inputs else ())
        return least + results * places * _PER_ELEMENT
    if op_type == SAMPLER:
        samples = attributes.get("sampling_ratio", 0)
        if not isinstance(samples, int) or samples < 1:
            raise ModelError(f"how much a {SAMPLER} computes follows from its regions")
        return least + results * samples**2 * _PER_ELEMENT
    return least


def _window(attributes: Mapping[str, Any], source: Shape) -> int:
    """Places of a window, as far as it lies in its input."""
    kernel = attributes.get("kernel_shape")
    if not isinstance(kernel, list | tuple) or not all(isinstance(k, int) for k in kernel):
        return math.prod(source[2:])
    return math.prod(
        max(1, min(size, within)) for size, within in zip(kernel, source[2:], strict=False)
    )
