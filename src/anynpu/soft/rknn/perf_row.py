"""A line of the table of layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...tensor import DType

NOTHING = "\\"
"""What a cell says that has nothing to say."""


@dataclass(frozen=True)
class Row:
    """A layer of the table; `cycles` and `mac_usage` say nothing where the clock doesn't know."""

    op_type: str
    name: str
    dtype: str
    target: str
    inputs: str
    output: str
    microseconds: int
    kilobytes: float
    cycles: str = "0/0/0"
    mac_usage: str = NOTHING


def shape_text(shapes: Iterable[Sequence[int]]) -> str:
    """Shapes as the table has them: (1,3,640,640),(16,3,3,3)."""
    return ",".join(f"({','.join(map(str, shape))})" for shape in shapes) or NOTHING


def device_type(name: str) -> str:
    """The device's dtype for a type as ONNX Runtime names it: it computes float16 in float."""
    plain = {"float": DType.FLOAT16, "double": DType.FLOAT16, "uint8": DType.INT8}
    found = plain.get(name)
    return found.name if found else name.upper()
