"""What a board's Python runs: a function of a module, whose result goes into a file.

python -m tests.conformance.vendor_runtime.call MODULE FUNCTION ARGUMENTS OUTPUT
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import numpy as np


def main(module: str, function: str, arguments: str, output: str) -> int:
    """Save what the function gives: arrays, or texts; what it raised is called !."""
    try:
        found: dict[str, Any] = dict(
            getattr(import_module(module), function)(*json.loads(arguments))
        )
    except Exception as error:
        found = {"!": f"{type(error).__name__}: {error}"}
    values = {
        name: value if isinstance(value, (np.ndarray, np.generic)) else np.array(str(value))
        for name, value in found.items()
    }
    np.savez(output, **values)
    return "!" in found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
