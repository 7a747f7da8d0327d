"""Shaders: the name of the layer says which family makes a description of it."""

from __future__ import annotations

from ..operation import OperationContext
from ..refusal import Unknown
from ..shaders.names import FAMILIES
from ..shaders.shader import Shader
from ..shaders.task import ShaderTask


def decode_shader(context: OperationContext) -> ShaderTask:
    """A shader's operation; raises `Unknown` for a name, an image or a form that isn't known."""
    name = context.layer
    for start, family in FAMILIES.items():
        if name == start or (start.endswith("_") and f"{name}_".startswith(start)):
            return family(Shader(context))
    raise Unknown(f"shader {name!r} isn't known")
