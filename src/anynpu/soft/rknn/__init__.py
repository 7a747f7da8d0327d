"""What each rknn_* call does on the soft NPU.

A function lives in a module here under its C name; it takes what ctypes makes of the C arguments,
returns None for RKNN_SUCC, and raises `Failure` for any other code.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ...rknn.abi import FUNCTIONS

IMPLEMENTED: dict[str, str] = {
    "rknn_init": "lifecycle",
    "rknn_destroy": "lifecycle",
    "rknn_query": "query",
    "rknn_inputs_set": "inputs",
    "rknn_set_core_mask": "run",
    "rknn_run": "run",
    "rknn_outputs_get": "outputs",
    "rknn_outputs_release": "outputs",
}
"""C function -> the module that implements it. What isn't here isn't exported."""


@cache
def _callbacks() -> tuple[dict[str, int], list[Any]]:
    from ..cabi.callbacks import make_table

    implementations = {
        name: getattr(import_module(f".{module}", __name__), name)
        for name, module in IMPLEMENTED.items()
    }
    return make_table(FUNCTIONS, implementations)


def function_table() -> dict[str, int]:
    """The address of each implemented function; they stay valid until the process ends."""
    return _callbacks()[0]
