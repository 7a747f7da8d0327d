"""What each rknn_* call does on the soft NPU.

A function lives in a module here under its C name; it takes what ctypes makes of the C arguments,
returns None for RKNN_SUCC, and raises `Failure` for any other code.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from ...rknn import header
from ...rknn.abi import FUNCTIONS, ErrorCode, Function
from ...soc import Soc
from ..cabi.exports import Exports
from ..call_log import take as log_of_failed_call

__all__ = [
    "IMPLEMENTED",
    "exports",
    "function_table",
    "functions",
    "log_of_failed_call",
    "shared_library",
]

IMPLEMENTED: dict[str, str] = {
    "rknn_init": "lifecycle",
    "rknn_dup_context": "lifecycle",
    "rknn_destroy": "lifecycle",
    "rknn_query": "query",
    "rknn_inputs_set": "inputs",
    "rknn_set_batch_core_num": "run",
    "rknn_set_core_mask": "run",
    "rknn_run": "run",
    "rknn_wait": "run",
    "rknn_outputs_get": "outputs",
    "rknn_outputs_release": "outputs",
    "rknn_create_mem_from_phys": "tensor_memory",
    "rknn_create_mem_from_fd": "tensor_memory",
    "rknn_create_mem_from_mb_blk": "tensor_memory",
    "rknn_create_mem": "tensor_memory",
    "rknn_create_mem2": "tensor_memory",
    "rknn_destroy_mem": "tensor_memory",
    "rknn_set_weight_mem": "tensor_memory",
    "rknn_set_internal_mem": "tensor_memory",
    "rknn_set_io_mem": "zero_copy",
    "rknn_set_input_shape": "shapes",
    "rknn_set_input_shapes": "shapes",
    "rknn_mem_sync": "tensor_memory",
    "rknn_matmul_create": "matmul.create",
    "rknn_matmul_create_dyn_shape": "matmul.create",
    "rknn_matmul_create_dynamic_shape": "matmul.create",
    "rknn_matmul_set_io_mem": "matmul.run",
    "rknn_matmul_set_core_mask": "matmul.run",
    "rknn_matmul_set_quant_params": "matmul.parameters",
    "rknn_matmul_get_quant_params": "matmul.parameters",
    "rknn_matmul_set_dynamic_shape": "matmul.run",
    "rknn_matmul_run": "matmul.run",
    "rknn_matmul_destroy": "matmul.create",
    "rknn_B_normal_layout_to_native_layout": "matmul.native_layout",
    "rknn_register_custom_ops": "custom_ops",
    "rknn_custom_op_get_op_attr": "custom_ops",
}
"""C function -> the module that implements it. What isn't here isn't exported."""


def functions(library: str) -> dict[str, Function]:
    """What a runtime exports of the table of functions, as far as it is implemented."""
    exported = {name: FUNCTIONS[name] for name in FUNCTIONS if name in IMPLEMENTED}
    if library != "librknnmrt":
        return exported
    return {n: f.with_narrow_handles for n, f in exported.items() if f.in_librknnmrt}


def exports(library: str) -> Exports:
    """What a runtime exports, as C has it."""
    # C declares handles as wide as they are; narrow ones are a matter of who fills the table.
    declared = [FUNCTIONS[name] for name in functions(library)]
    unavailable = int(ErrorCode.DEVICE_UNAVAILABLE)
    return Exports(header.text(), declared, header.declare, header.parameters, unavailable)


@cache
def _callbacks(library: str, chip: Soc | None) -> tuple[dict[str, int], list[Any]]:
    from ..cabi.callbacks import make_table
    from .failure import CONVENTIONS

    declared = functions(library)
    implementations = {
        name: getattr(import_module(f".{IMPLEMENTED[name]}", __name__), name) for name in declared
    }
    return make_table(declared, implementations, CONVENTIONS, chip)


def shared_library(library: str = "librknnrt") -> str:
    """The path of the shared library that exports a runtime's functions, built where needed."""
    from ..cabi.build import library_folder

    return str(library_folder() / f"{library}.so")


def function_table(library: str = "librknnrt", chip: Soc | None = None) -> dict[str, int]:
    """The address of each function of a runtime; they stay valid until the process ends.

    With a `chip` they are that chip's, whatever the environment says.
    """
    return _callbacks(library, chip)[0]
