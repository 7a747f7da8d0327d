"""What a shader does: its function on the values of its images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory
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
        result = task.function(*values)
    stored = np.ascontiguousarray(np.broadcast_to(result, task.output.shape), task.output.dtype)
    memory.write(task.output.window, stored[..., None].view(np.uint8))
