"""Shaders: the name of the layer says which family makes a description of it."""

from __future__ import annotations

from ..operation import OperationContext
from ..refusal import Unknown
from ..shaders.machine.program import program_of
from ..shaders.names import FAMILIES
from ..shaders.shader import Shader
from ..tasks import Task

_PROGRAMS_FIRST = ("01bb6409941f132a", "0dc7ac042d9f6d2e")
"""Programs whose sums of bytes, as real numbers, the family gives but for the last places."""


def decode_shader(context: OperationContext) -> Task:
    """A shader's operation; raises `Unknown` for a name, an image or a form that isn't known."""
    name = context.layer
    shader = Shader(context)
    if shader.program in _PROGRAMS_FIRST:
        return program_of(shader)
    for start, family in FAMILIES.items():
        if name == start or (start.endswith("_") and f"{name}_".startswith(start)):
            try:
                return family(shader)
            except Unknown as reason:
                return _interpreted(shader, reason)
    return _interpreted(shader, Unknown(f"shader {name!r} isn't known"))


def _interpreted(shader: Shader, reason: Unknown) -> Task:
    """What a program does of which no family knows the form; `reason` says why none does."""
    try:
        return program_of(shader)
    except Unknown as other:
        raise Unknown(f"{reason}; its program: {other}") from None
