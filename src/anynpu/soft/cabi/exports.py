"""The shim's exported functions, written as C from the declarations.

``python -m anynpu.soft.cabi.exports librknnrt`` prints what native/shim.c includes. It needs
nothing but the standard library, so a build can run it before anything is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...declarations import Function
from ..libraries import find


@dataclass(frozen=True)
class Exports:
    """What a library exports, as C has it.

    `header` declares the types and the functions; `declare` and `parameters` write C as it does.
    `unavailable` is the code of functions that return one while the soft NPU can't start.
    """

    header: str
    functions: Iterable[Function]
    declare: Callable[[Any, str], str]
    parameters: Callable[[Function], str]
    unavailable: int


def source(library: str) -> str:
    """The text of the file that native/shim.c includes as ANYNPU_EXPORTS."""
    exports: Exports = find(library).package.exports(library)
    lines = [_export(function, exports) for function in exports.functions]
    return exports.header + "\n".join(("#ifdef ANYNPU_EXPORT", *lines, "#endif\n"))


def _export(function: Function, exports: Exports) -> str:
    parameters = exports.parameters(function)
    arguments = ", ".join(name for name, _ in function.arguments)
    if function.result is None:
        return f"ANYNPU_EXPORT_VOID({function.name}, ({parameters}), ({arguments}))"
    # Zero is NULL for a function that returns a pointer.
    failure = exports.unavailable if function.returns_code else 0
    result = exports.declare(function.result, "")
    return f"ANYNPU_EXPORT({result}, {function.name}, ({parameters}), ({arguments}), {failure})"


if __name__ == "__main__":
    print(source(sys.argv[1]), end="")
