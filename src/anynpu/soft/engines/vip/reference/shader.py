"""What a shader does: its function on the values of its images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory, Space
from ..metering import MOST_AT_LOAD, Meter
from ..refusal import Refusal, Unknown
from ..shaders.machine.execution import carry_out
from ..shaders.machine.program import ProgramTask
from ..shaders.shader import Image
from ..shaders.task import ShaderTask
from .compute import compute


def _values(image: Image, memory: Memory) -> NDArray[Any]:
    if image.constant is not None:
        return image.constant
    content = np.ascontiguousarray(memory.read(image.window))
    values: NDArray[Any] = content.view(image.dtype)[..., 0]
    return values


@compute.register
def _(task: ShaderTask, memory: Memory) -> None:
    values = [_values(image, memory) for image in task.inputs]
    with np.errstate(all="ignore"):
        found = task.function(*values)
    results = found if isinstance(found, tuple) else (found,)
    for image, result in zip(task.outputs, results, strict=True):
        stored = np.ascontiguousarray(np.broadcast_to(result, image.shape), image.dtype)
        memory.write(image.window, stored[..., None].view(np.uint8))


@compute.register
def _(task: ProgramTask, memory: Memory) -> None:
    def contents(space: Space) -> NDArray[np.uint8]:
        own = task.blobs.get(space)
        return memory.space(space) if own is None else own

    try:
        with np.errstate(all="ignore"):
            carry_out(task.program, contents, Meter(MOST_AT_LOAD))
    except Unknown as reason:
        # What it does depends on values: a rehearsal with others went well.
        raise Refusal(f"a shader's program with these inputs: {reason}") from None
