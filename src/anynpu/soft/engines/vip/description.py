"""What the operations of a compiled `.nb` file do, as plain data."""

from __future__ import annotations

import math
from typing import Any

from ...formats.nbg import Nbg
from ...formats.nbg.model import Source
from .kernels.compile import kernels_of
from .memory import Scattered, Window
from .operation import OperationContext
from .prepare import examined
from .refusal import Refusal


def describe_operations(model: Nbg, *, with_kernels: bool = False) -> list[dict[str, Any]]:
    """Each operation in the order of execution, for JSON.

    Its unit, its layer's name (which is a shader's, too), the arrays of bytes that it reads and
    writes, its products, the bytes of its coefficients, and why it is refused, or None;
    `with_kernels` adds the kernel that runs it here. Raises `Refusal` for a file whose commands
    aren't known at all.
    """
    operations = list(examined(model))
    described = [_described(context, found) for context, found in operations]
    if with_kernels and operations:
        known = [found for _, found in operations if not isinstance(found, Refusal)]
        kernels = iter(kernels_of(operations[0][0].layout, known))
        for each in described:
            each["kernel"] = next(kernels) if each["refused"] is None else None
    return described


def _described(context: OperationContext, found: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "number": context.number,
        "unit": context.operation.unit,
        "layer": context.layer,
        "inputs": [],
        "outputs": [],
        "macs": 0,
        "coefficient_bytes": _coefficient_bytes(context),
        "refused": None,
    }
    if isinstance(found, Refusal):
        return described | {"refused": str(found)}
    return described | {
        "inputs": [_array(window) for window in found.reads()],
        "outputs": [_array(target) for target in found.writes()],
        "macs": found.macs,
    }


def _array(window: Window | Scattered) -> dict[str, Any]:
    """Where bytes are and how many in each direction; sizes of one are left out."""
    if isinstance(window, Scattered):
        shape = [window.places.size * window.item]
    else:
        shape = [size for size in window.shape if size != 1] or [1]
    return {"memory": str(window.space), "shape": shape, "bytes": math.prod(shape)}


def _coefficient_bytes(context: OperationContext) -> int:
    executable = context.executable
    numbers = {
        patch.number
        for patch in (executable.patches[place] for place in context.operation.patches)
        if patch.source == Source.COEFFICIENTS and 0 <= patch.number < len(executable.coefficients)
    }
    return sum(executable.coefficients[number].size for number in numbers)
