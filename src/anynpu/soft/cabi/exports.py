"""The shim's exported functions, written as C from the declarations.

``python -m anynpu.soft.cabi.exports librknnrt`` prints what native/shim.c includes. It needs
nothing but the standard library, so a build can run it before anything is installed.
"""

from __future__ import annotations

import ctypes
import sys

from ...errors import OptionError
from ...rknn import header
from ...rknn.abi import FUNCTIONS, ErrorCode, Function
from ..rknn import LIBRARIES, functions


def source(library: str) -> str:
    """The text of the file that native/shim.c includes as ANYNPU_EXPORTS."""
    if library not in LIBRARIES:
        raise OptionError(f"no soft library is called {library!r}; there is {', '.join(LIBRARIES)}")
    # C declares handles as wide as they are; narrow ones are a matter of who fills the table.
    lines = [_export(FUNCTIONS[name]) for name in functions(library)]
    return header.text() + "\n".join(("#ifdef ANYNPU_EXPORT", *lines, "#endif\n"))


def _export(function: Function) -> str:
    parameters = header.parameters(function)
    arguments = ", ".join(name for name, _ in function.arguments)
    if function.result is None:
        return f"ANYNPU_EXPORT_VOID({function.name}, ({parameters}), ({arguments}))"
    failure = int(ErrorCode.DEVICE_UNAVAILABLE) if function.result is ctypes.c_int else "NULL"
    result = header.declare(function.result, "")
    return f"ANYNPU_EXPORT({result}, {function.name}, ({parameters}), ({arguments}), {failure})"


if __name__ == "__main__":
    print(source(sys.argv[1]), end="")
