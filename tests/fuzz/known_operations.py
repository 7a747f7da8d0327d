"""Operations of `.nb` files that sound files have, decoded once, and not for each damage elsewhere.

What an operation is decoded to follows from its own commands, registers, addresses, coefficients
and programs, and from the sizes of memory. Where all of that is as in a sound file, so is the task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from anynpu.soft.engines.vip import prepare as preparing
from anynpu.soft.engines.vip.decode.matrix_product import MatrixProduct
from anynpu.soft.engines.vip.memory import space_of
from anynpu.soft.engines.vip.operation import OperationContext
from anynpu.soft.engines.vip.prepare import Operations
from anynpu.soft.engines.vip.refusal import Unknown
from anynpu.soft.engines.vip.tasks import Task
from anynpu.soft.formats.nbg.model import NN_KINDS, Nbg, OperationKind, Source

_decode = preparing._decoded
_known: dict[bytes, Task] = {}
_tasks: dict[int, Task] = {}


def learn(model: Nbg) -> None:
    """Decode a sound file's operations; raises `ModelError` if it isn't one."""
    operations = Operations(model)
    tasks, file = list(operations.tasks()), b""
    for context, task in zip(operations.contexts(), tasks, strict=True):
        file = file or _key_of_file(context)
        # Which looks at the operations before it.
        if not isinstance(task, MatrixProduct):
            _known[_key(context, file)] = task
            _tasks[id(task)] = task


@contextmanager
def used() -> Iterator[None]:
    """A file may be loaded here: operations that are as in a sound one aren't decoded again."""
    file: list[bytes] = []

    def decoded(context: OperationContext) -> Task:
        if not file:
            file.append(_key_of_file(context))
        try:
            task = _known.get(_key(context, file[0]))
        except (IndexError, Unknown):
            # It is of something that isn't there, which decoding says better.
            task = None
        return _decode(context) if task is None else task

    with patch.object(preparing, "_decoded", decoded):
        yield


def is_known(task: Task) -> bool:
    """Whether a task is one of a sound file."""
    return id(task) in _tasks


def _key_of_file(context: OperationContext) -> bytes:
    model, executable = context.model, context.executable
    sizes = [(space.source, space.number, size) for space, size in context.layout.spaces()]
    about = model.target, model.version, executable.has_offsets_in_commands, sizes
    return repr((about, model.inputs, model.outputs)).encode()


def _key(context: OperationContext, file: bytes) -> bytes:
    """All that decoding depends on, as a digest; `IndexError` or `Unknown` if it isn't there."""
    operation, executable = context.operation, context.executable
    patches = [executable.patches[number] for number in operation.patches]
    about = operation.kind, context.layer, [tuple(each) for each in patches]
    digest = hashlib.blake2b(file + repr(about).encode())
    if operation.state < 0 or operation.index < 0:
        raise IndexError("before the first")
    parts = [executable.states[operation.state]]
    if operation.kind in NN_KINDS:
        parts.append(executable.nn[operation.index])
    elif operation.kind == OperationKind.TP:
        parts.append(executable.tp[operation.index])
    elif executable.shader_programs:
        parts.append(executable.shader_programs[operation.index])
    for each in patches:
        if each.source == Source.COMMAND:
            continue
        space = space_of(each.source, each.number)
        if space.source is Source.COEFFICIENTS:
            parts.append(executable.coefficients[space.number])
        elif space.source is Source.CONSTANTS:
            parts.append(executable.constants[space.number])
    for part in parts:
        digest.update(b"%d " % part.size)
        digest.update(part.tobytes())
    return digest.digest()
