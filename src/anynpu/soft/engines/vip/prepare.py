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
from .stream.queues import QueueSizes
from .tasks import Task
from .units import DECODERS
from .written import Written


@dataclass(frozen=True)
class Prepared:
    """What a file's operations do; `numbers` are their places in the file."""

    layout: MemoryMap
    tasks: tuple[Task, ...]
    numbers: tuple[int, ...]


def prepare(model: Nbg) -> Prepared:
    """Decode all operations; raises `Refusal`, which names what isn't known of the first."""
    operations = Operations(model)
    return Prepared(operations.layout, tuple(operations.tasks()), operations.numbers)


def examined(model: Nbg) -> Iterator[tuple[OperationContext, Task | Refusal]]:
    """Each operation with what it does, or why it is refused; for who looks at a file."""
    for context in Operations(model).contexts():
        try:
            yield context, _decoded(context)
        except Refusal as refusal:
            yield context, refusal


class Operations:
    """A file's operations on their way to descriptions, but for those that set a chip up.

    `numbers` are their places in the file. Raises `Refusal` where no command is known.
    """

    def __init__(self, model: Nbg) -> None:
        executable = model.executable
        if executable is None:
            raise ModelError(f"network {model.name!r} has no commands")
        if model.target not in CORES:
            raise Refusal(f"commands of NPU {model.target:#x} aren't known")
        if model.version < 0x20000 and executable.nn.size and executable.nn.shape[1] != 48:
            raise Refusal("commands of 32 words aren't known")
        self.layout = MemoryMap(model, executable)
        self.shared = Shared()
        self._model, self._executable = model, executable
        self.numbers = tuple(
            number
            for number, operation in enumerate(model.operations)
            if operation.kind not in (OperationKind.INITIALISATION, OperationKind.FINAL)
        )

    def contexts(self) -> Iterator[OperationContext]:
        """Each with what a decoder may ask about it."""
        for number in self.numbers:
            yield OperationContext(self._model, self._executable, self.layout, number, self.shared)

    def tasks(self) -> Iterator[Task]:
        """Decode them one by one; raises `Refusal`, which names what isn't known of the first.

        Contexts and descriptions have many objects: none is kept here.
        """
        written, queues = Written(self.layout), QueueSizes()
        for context in self.contexts():
            task = _decoded(context)
            written.follow(task, context)
            queues.follow(task, context)
            yield task
        self.shared.let_go()
        written.check_outputs(self._model)


def _decoded(context: OperationContext) -> Task:
    decoder = DECODERS.get(context.operation.kind)
    try:
        if decoder is None:
            raise Unknown("operations of this kind aren't known")
        return decoder(context)
    except Unknown as reason:
        raise Refusal(f"{context.title}: {reason}") from None


__all__ = ["Operations", "Prepared", "examined", "prepare"]
