"""Limits that tasks put elsewhere than the source model.

For RV1103 and RV1106 toolkit 2.5.0 adds Clip's lower limit to the wrong side: the one after a
convolution is left out (a stage adds 0, and limits from there), the one of a node by itself moves
the upper limit. ThresholdedRelu is compiled, for all chips, as if its threshold were an upper
limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .....tensor import Quantization
from ....formats.rknn.model import ElementType, Node, Tensor
from ...rknpu.tasks import ConvolutionTask, ElementwiseTask, Stage, Task
from .sentence import mistake
from .subject import Subject

_CLIP, _FUSED, _THRESHOLDED = "Clip", "ConvClip", "ThresholdedRelu"
_BOUNDS = 2
_INT8 = (-128, 127)
_STEPS_OFF = 1.5
"""How far a limit may be off by rounding: half a step on either side, and a little."""


def mistakes(subject: Subject) -> Iterator[str]:
    """What is wrong with limits, as sentences."""
    for node, own in subject.of_type(_CLIP):
        if _is_elsewhere(subject, node, own):
            yield _of_clip(node)
    for node, own in subject.of_type(_FUSED):
        if any(_leaves_out_the_lower(task) for task in own):
            yield _of_clip(node)
    for node, own in subject.of_type(_THRESHOLDED):
        if any(stage.upper is not None for task in own for stage in _stages(task)):
            yield mistake(
                node.name,
                "cuts what is greater than its threshold, and keeps what lies between 0 and it",
                "Take x * (x > threshold), or Relu",
            )


def _of_clip(node: Node) -> str:
    return mistake(
        node.name,
        "has other limits than its Clip",
        "Version 2.5.0 does so for RV1103 and RV1106 where the lower limit isn't 0: add a "
        "constant before it and take it off after it, so that it is 0",
    )


def _leaves_out_the_lower(task: Task) -> bool:
    """Whether a convolution's second stage adds nothing, and is there, for a lower limit of 0.

    One that is meant to be 0 needs no sum.
    """
    if not isinstance(task, ConvolutionTask) or task.dpu.is_float or task.dpu.bn is None:
        return False
    stage = task.dpu.bn
    adds_nothing = isinstance(stage.add, int) and stage.add == 0 and stage.multiply is None
    return adds_nothing and stage.lower == 0 and task.dpu.elementwise is None


def _is_elsewhere(subject: Subject, node: Node, tasks: Sequence[Task]) -> bool:
    """Whether limits of int8, as steps of the input, aren't the node's own."""
    quantization = subject.quantization(node)
    bounds = [t for t in subject.constants(node) if t.element is ElementType.FLOAT32]
    if quantization is None or len(bounds) != _BOUNDS:
        return False
    wanted = [_step(subject, tensor, quantization) for tensor in bounds]
    return any(
        limits is not None and not _agree(limits, wanted) for limits in map(_limits_in_steps, tasks)
    )


def _step(subject: Subject, bound: Tensor, quantization: Quantization) -> float | None:
    """A bound in steps of the input, as far as int8 reaches; None for one that isn't there."""
    numbers = subject.numbers(bound)
    if numbers.size != 1:
        return None
    return _in_int8(float(numbers[0]) / quantization.scale + quantization.zero_point)


def _limits_in_steps(task: Task) -> tuple[float, float] | None:
    """Both limits of a task that does nothing but add, limit, and take off again."""
    if not isinstance(task, ElementwiseTask) or task.dpu.is_float or task.dpu.bs is None:
        return None
    stage, output = task.dpu.bs, task.dpu.output
    is_plain = stage.multiply is None and isinstance(stage.add, int) and output.shift == 0
    if not is_plain or not isinstance(stage.add, int) or output.scale != 1:
        return None
    if stage.lower is None or stage.upper is None:
        return None
    return _in_int8(stage.lower - stage.add), _in_int8(stage.upper - stage.add)


def _in_int8(step: float) -> float:
    return min(max(step, _INT8[0]), _INT8[1])


def _agree(limits: tuple[float, float], wanted: Sequence[float | None]) -> bool:
    return all(
        want is None or abs(limit - want) <= _STEPS_OFF
        for limit, want in zip(limits, wanted, strict=True)
    )


def _stages(task: Task) -> Iterator[Stage]:
    if isinstance(task, ConvolutionTask | ElementwiseTask):
        yield from (stage for stage in (task.dpu.bs, task.dpu.bn) if stage is not None)
