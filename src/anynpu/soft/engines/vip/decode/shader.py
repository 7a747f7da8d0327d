"""Shaders: the name of the layer says which family makes a description of it."""

from __future__ import annotations

from ..operation import OperationContext
from ..refusal import Unknown
from ..shaders.machine.program import program_of
from ..shaders.names import FAMILIES
from ..shaders.shader import Shader
from ..tasks import Task


def decode_shader(context: OperationContext) -> Task:
    """A shader's operation; raises `Unknown` for a name, an image or a form that isn't known."""
    name = context.layer
    for start, family in FAMILIES.items():
        if name == start or (start.endswith("_") and f"{name}_".startswith(start)):
            try:
                return family(Shader(context))
            except Unknown as reason:
                return _interpreted(context, reason)
    return _interpreted(context, Unknown(f"shader {name!r} isn't known"))


def _interpreted(context: OperationContext, reason: Unknown) -> Task:
    """What a program does of which no family knows the form; `reason` says why none does."""
    try:
        return program_of(Shader(context))
    except Unknown as other:
        raise Unknown(f"{reason}; its program: {other}") from None
