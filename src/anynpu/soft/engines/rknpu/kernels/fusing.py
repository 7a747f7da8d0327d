"""Tasks of one node whose floats another one of it takes, computed with that one's stages.

The toolkit compiles some activations as two tasks: one leaves float32 in memory, the next one makes
float16 of it. Where nobody else reads that float32, the first one's kernel runs the stages of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..elements import Element
from ..layout import moved, read, written
from ..memory import Memory, Strided
from ..tasks import BlockWriter, ConvolutionTask, ElementwiseTask, Features, Task
from ..weights import StoredOperand
from . import general
from .general.targets import overlaps
from .steps import KernelKind, KernelStep, Plan, Scratch

Producer = ConvolutionTask | ElementwiseTask


@dataclass(frozen=True)
class Fusion:
    """Tasks that may run as one: `producers` from top to bottom, each with a plan for both.

    `between` is what they would leave for `consumer` alone.
    """

    producers: tuple[Producer, ...]
    consumer: ElementwiseTask
    plans: tuple[Plan, ...]
    between: tuple[Strided, ...]

    @property
    def results(self) -> tuple[Strided, ...]:
        """What they write as one."""
        return written(self.consumer).views


class Included(Plan):
    """The plan of a task that those before it have computed."""

    kind = KernelKind.GENERAL

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        return ()


def fusion_before(tasks: Sequence[Task], end: int, plans: Mapping[int, Plan]) -> Fusion | None:
    """How a node's task number `end` may run with those just before it.

    That nobody else needs what is between, the caller finds out.
    """
    consumer = tasks[end]
    if not isinstance(consumer, ElementwiseTask) or not _may_follow(consumer, plans):
        return None
    producers: list[tuple[Producer, int]] = []
    row = consumer.source.height
    while row > 0 and len(producers) < end:
        task = tasks[end - 1 - len(producers)]
        if not isinstance(task, ConvolutionTask | ElementwiseTask) or not _may_lead(task, plans):
            return None
        row -= _shape(task)[1]
        if row < 0 or not _writes_rows(task, consumer.source, row):
            return None
        producers.append((task, row))
    return None if row else _fusion(producers[::-1], consumer, plans)


def _fusion(
    producers: Sequence[tuple[Producer, int]],
    consumer: ElementwiseTask,
    plans: Mapping[int, Plan],
) -> Fusion | None:
    results = written(consumer).views
    if len(producers) > 1 and any(
        overlaps(view, result) for task, _ in producers for view in read(task) for result in results
    ):
        return None
    fused = [_plan(plans[task.index], task, row, consumer) for task, row in producers]
    found = tuple(plan for plan in fused if plan is not None)
    if len(found) < len(fused):
        return None
    tasks = tuple(task for task, _ in producers)
    between = tuple(view for task in tasks for view in written(task).views)
    return Fusion(tasks, consumer, found, between)


def _may_follow(task: ElementwiseTask, plans: Mapping[int, Plan]) -> bool:
    """Whether stages need nothing of memory but the float32 that they are given, pixel by pixel."""
    source, dpu, writer = task.source, task.dpu, task.writer
    numbers = [
        number for stage in (dpu.bs, dpu.bn) if stage for number in (stage.add, stage.multiply)
    ]
    return (
        _is_general(task, plans)
        and dpu.is_float
        and not dpu.reduction
        and source.element is Element.FLOAT32
        and isinstance(writer, BlockWriter)
        and (writer.height, writer.width) == (source.height, source.width)
        and dpu.elementwise is None
        and not any(isinstance(number, StoredOperand) for number in numbers)
    )


def _may_lead(task: Producer, plans: Mapping[int, Plan]) -> bool:
    dpu = task.dpu
    return (
        _is_general(task, plans)
        and dpu.is_float
        and not dpu.reduction
        and dpu.output.element is Element.FLOAT32
    )


def _is_general(task: Task, plans: Mapping[int, Plan]) -> bool:
    plan = plans.get(task.index)
    return plan is not None and plan.kind is KernelKind.GENERAL


def _shape(task: Producer) -> tuple[int, int, int]:
    return task.convolution.shape if isinstance(task, ConvolutionTask) else task.source.shape


def _writes_rows(task: Producer, source: Features, row: int) -> bool:
    """Whether a task's results are rows of `source` from `row` on, surface by surface."""
    writer, (channels, height, width) = task.writer, _shape(task)
    if not isinstance(writer, BlockWriter) or (writer.height, writer.width) != (height, width):
        return False
    if (channels, width, writer.atom, writer.line) != (
        source.channels, source.width, source.atom, source.line,
    ):  # fmt: skip
        return False
    first = writer.address
    blocks = (divmod(surface, writer.group) for surface in range(source.surfaces))
    return all(
        (first.section, first.offset + block * writer.group_stride + surface * writer.surface)
        == (section, offset + row * source.line)
        for (block, surface), (section, offset) in zip(blocks, _surfaces(source), strict=True)
    )


def _surfaces(source: Features) -> Iterator[tuple[int, int]]:
    """Section and offset of each surface."""
    starts = [source.address] if source.odd is None else [source.address, source.odd]
    for surface in range(source.surfaces):
        number, side = divmod(surface, len(starts))
        yield starts[side].section, starts[side].offset + number * source.surface


def _plan(plan: Plan, task: Producer, row: int, consumer: ElementwiseTask) -> Plan | None:
    """One that writes rows of the consumer's results straight to their place."""
    writer = consumer.writer
    assert isinstance(writer, BlockWriter), "as of all that may follow"
    own = replace(
        task,
        writer=replace(
            writer, address=moved(writer.address, row * writer.line), height=_shape(task)[1]
        ),
    )
    if isinstance(own, ConvolutionTask):
        target = general.convolution_target(own, consumer.dpu)
    else:
        target = general.elementwise_target(own, consumer.dpu)
    if not (isinstance(plan, general.FollowedPlan) and target.is_known and target.is_direct):
        return None
    return plan.followed_by(target, consumer.dpu)
