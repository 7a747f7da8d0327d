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
        found = task.function(*values)
    results = found if isinstance(found, tuple) else (found,)
    for image, result in zip(task.outputs, results, strict=True):
        stored = np.ascontiguousarray(np.broadcast_to(result, image.shape), image.dtype)
        memory.write(image.window, stored[..., None].view(np.uint8))
