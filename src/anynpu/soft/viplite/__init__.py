"""What each vip_* and awnn_* call does on the soft NPU.

A function lives in a module here under its C name; it takes what ctypes makes of the C arguments,
returns None for VIP_SUCCESS, and raises `Failure` for any other code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from ...declarations import Function
from ...soc import VipSoc
from ...viplite import abi, header
from ...viplite.abi import Interface, Status
from ..cabi.exports import Exports
from ..call_log import take as log_of_failed_call
from ..libraries import AWNN, VIPLITE

__all__ = ["IMPLEMENTED", "exports", "function_table", "functions", "log_of_failed_call"]

IMPLEMENTED: dict[str, str] = {
    "vip_get_version": "lifecycle",
    "vip_init": "lifecycle",
    "vip_destroy": "lifecycle",
    "vip_set_log_path": "lifecycle",
    "vip_query_hardware": "hardware",
    "vip_power_management": "hardware",
    "vip_create_buffer": "buffers",
    "vip_create_buffer_cache": "buffers",
    "vip_create_buffer_from_physical": "buffers",
    "vip_create_buffer_from_handle": "buffers",
    "vip_create_buffer_from_fd": "buffers",
    "vip_destroy_buffer": "buffers",
    "vip_map_buffer": "buffers",
    "vip_unmap_buffer": "buffers",
    "vip_get_buffer_size": "buffers",
    "vip_flush_buffer": "buffers",
    "vip_create_network": "creation",
    "vip_dup_network": "creation",
    "vip_weak_dup_network": "creation",
    "vip_destroy_network": "creation",
    "vip_prepare_network": "preparation",
    "vip_finish_network": "preparation",
    "vip_set_network": "properties",
    "vip_query_network": "properties",
    "vip_set_ppu_param": "properties",
    "vip_query_input": "tensors",
    "vip_query_output": "tensors",
    "vip_set_input": "tensors",
    "vip_set_output": "tensors",
    "vip_run_network": "run",
    "vip_trigger_network": "run",
    "vip_wait_network": "run",
    "vip_cancel_network": "run",
    "vip_create_group": "groups",
    "vip_destroy_group": "groups",
    "vip_set_group": "groups",
    "vip_query_group": "groups",
    "vip_add_network": "groups",
    "vip_run_group": "groups",
    "vip_trigger_group": "groups",
    "vip_wait_group": "groups",
    "awnn_init": "awnn",
    "awnn_uninit": "awnn",
    "awnn_create": "awnn",
    "awnn_destroy": "awnn",
    "awnn_set_input_buffers": "awnn",
    "awnn_run": "awnn",
    "awnn_get_output_buffers": "awnn",
    "awnn_get_output_buffer": "awnn",
    "awnn_dump_io": "awnn",
}
"""C function -> the module that implements it."""

_OLD_FORMS = {
    "vip_init": ("lifecycle", "vip_init_with_heap"),
    "vip_power_management": ("hardware", "vip_power_management_of_network"),
}
"""What V85x declares with other arguments, and who implements that."""

_INTERFACES = {library.name: interface for interface, library in VIPLITE.items()}


def functions(library: Interface | str) -> dict[str, Function]:
    """What a library exports; an interface stands for its library."""
    if library == AWNN.name:
        return dict(abi.AWNN_FUNCTIONS)
    return abi.functions(library if isinstance(library, Interface) else _INTERFACES[library])


def exports(library: str) -> Exports:
    """What a library exports, as C has it."""
    text = header.awnn_text() if library == AWNN.name else header.text(_INTERFACES[library])
    declared = functions(library).values()
    return Exports(text, declared, header.declare, header.parameters, int(Status.FAILURE))


def function_table(
    library: Interface | str = Interface.V2_0, chip: VipSoc | None = None
) -> dict[str, int]:
    """The address of each function of a library; they stay valid until the process ends.

    With a `chip` they are that chip's, whatever the environment says.
    """
    known = _INTERFACES.get(library, library) if isinstance(library, str) else library
    return _callbacks(known, chip)[0]


@cache
def _callbacks(library: Interface | str, chip: VipSoc | None) -> tuple[dict[str, int], list[Any]]:
    from ..cabi.callbacks import make_table
    from .failure import CONVENTIONS

    declared = functions(library)
    implementations = {name: _implementation(name, library) for name in declared}
    return make_table(declared, implementations, CONVENTIONS, chip)


def _implementation(name: str, library: Interface | str) -> Callable[..., Any]:
    module, function = IMPLEMENTED[name], name
    if library is Interface.V85X and name in _OLD_FORMS:
        module, function = _OLD_FORMS[name]
    found: Callable[..., Any] = getattr(import_module(f".{module}", __name__), function)
    return partial(found, library) if name == "vip_get_version" else found
