"""A file's operations as descriptions, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import ModelError
from ...formats.nbg import Nbg
from ...formats.nbg.model import OperationKind
from .memory import MemoryMap
from .operation import CORES, OperationContext, Shared
from .refusal import Refusal, Unknown
from .stream.queues import check_queues
from .tasks import Task
from .units import DECODERS
from .written import check_written


@dataclass(frozen=True)
class Prepared:
    """What a file's operations do; `numbers` are their places in the file."""

    layout: MemoryMap
    tasks: tuple[Task, ...]
    numbers: tuple[int, ...]


def prepare(model: Nbg) -> Prepared:
    """Decode all operations; raises `Refusal`, which names what isn't known of the first."""
    contexts, layout = _contexts(model)
    tasks, numbers = [], []
    for context in contexts:
        tasks.append(_decoded(context))
        numbers.append(context.number)
    titles = [context.title for context in contexts]
    check_written(layout, model, tasks, titles)
    check_queues(tasks, titles)
    return Prepared(layout, tuple(tasks), tuple(numbers))


def examined(model: Nbg) -> Iterator[tuple[OperationContext, Task | Refusal]]:
    """Each operation with what it does, or why it is refused; for who looks at a file."""
    for context in _contexts(model)[0]:
        try:
            yield context, _decoded(context)
        except Refusal as refusal:
            yield context, refusal


def _contexts(model: Nbg) -> tuple[list[OperationContext], MemoryMap]:
    executable = model.executable
    if executable is None:
        raise ModelError(f"network {model.name!r} has no commands")
    if model.target not in CORES:
        raise Refusal(f"commands of NPU {model.target:#x} aren't known")
    if model.version < 0x20000 and executable.nn.size and executable.nn.shape[1] != 48:
        raise Refusal("commands of 32 words aren't known")
    layout = MemoryMap(model, executable)
    shared = Shared()
    return [
        OperationContext(model, executable, layout, number, shared)
        for number, operation in enumerate(model.operations)
        if operation.kind not in (OperationKind.INITIALISATION, OperationKind.FINAL)
    ], layout


def _decoded(context: OperationContext) -> Task:
    decoder = DECODERS.get(context.operation.kind)
    try:
        if decoder is None:
            raise Unknown("operations of this kind aren't known")
        return decoder(context)
    except Unknown as reason:
        raise Refusal(f"{context.title}: {reason}") from None


__all__ = ["Prepared", "examined", "prepare"]
