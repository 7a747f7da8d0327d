"""A ReLU that the toolkit has put before a negative factor instead of after it.

`Relu(-x)` becomes a product with a ReLU in one task. Its limit is applied first, and the output's
scale, which is negative, after it: nothing is left that is greater than zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...rknpu.tasks import ElementwiseTask, Task
from .sentence import mistake
from .subject import Subject

_FUSED = "MulRelu"


def mistakes(subject: Subject) -> Iterator[str]:
    """The nodes, as sentences."""
    for node, own in subject.of_type(_FUSED):
        if any(_limits_first(task) for task in own):
            yield mistake(
                node.name,
                "has its ReLU before a negative factor, and gives zeros",
                "Fold the factor into what comes before it, or take Relu(x) - x for Relu(-x)",
            )


def _limits_first(task: Task) -> bool:
    if not isinstance(task, ElementwiseTask) or task.dpu.output.scale >= 0:
        return False
    stages = (stage for stage in (task.dpu.bs, task.dpu.bn) if stage is not None)
    return any(stage.lower == 0 for stage in stages)
