"""Constants that tasks read as another type than the one in which the file has them.

Max with a number for each channel has it as int8 in files for RK3566, RK3568, RV1103 and RV1106,
and reads four times as many bytes as int32; Where has one for each channel as int16, and reads
int8. A single number of Where is put among int8 as it is, without the output's quantisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ....formats.rknn.model import ElementType, Node, Tensor
from ...rknpu.tasks import Task
from .sentence import mistake
from .subject import Subject, operand_of

_WHERE = "Where"


def mistakes(subject: Subject) -> Iterator[str]:
    """What is wrong with constants, as sentences."""
    for node, own in subject.of_type("Max", "Min", _WHERE):
        if any(_has_other_elements(subject, node, task) for task in own):
            yield mistake(
                node.name,
                "reads its constant as another type than it has",
                "Versions 2.5.0 and before do so where an int8 network has a number for each "
                "channel: give it the constant in the shape of its other operand, or in float16",
            )
        elif node.op_type == _WHERE and _is_unquantised(subject, node):
            yield mistake(
                node.name,
                "writes its constant as it is, without the quantisation of its output",
                "Version 2.5.0 does so where an int8 network has a single number: give it the "
                "constant in the shape of its other operand, or in float16",
            )


def _has_other_elements(subject: Subject, node: Node, task: Task) -> bool:
    operand = operand_of(task)
    constant = subject.constant_at(node, operand.address) if operand is not None else None
    if operand is None or constant is None or constant.element.dtype is None:
        return False
    return constant.element.dtype.numpy.itemsize != operand.element.size


def _is_unquantised(subject: Subject, node: Node) -> bool:
    output = subject.output(node)
    if output is None or output.element is not ElementType.INT8 or output.quantization is None:
        return False
    return any(_is_a_number(tensor) for tensor in subject.constants(node))


def _is_a_number(tensor: Tensor) -> bool:
    return tensor.element is ElementType.FLOAT32 and math.prod(tensor.shape) == 1
