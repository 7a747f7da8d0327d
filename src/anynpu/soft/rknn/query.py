"""rknn_query: one function for each command."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ...rknn.abi import (
    MAX_DIMS,
    MAX_NAME_LEN,
    QUERIES,
    STRUCTURES,
    CustomString,
    ErrorCode,
    InitFlag,
    InputOutputNum,
    InputRange,
    MemSize,
    PerfDetail,
    PerfRun,
    Query,
    TensorAttr,
    TensorFormat,
)
from ...soc import Family, Soc
from ..engines import Port, Variant
from . import attributes, lifecycle, log, perf_detail
from .contexts import Context, DeviceContext, on_any_context
from .failure import Failure
from .leniency import crash, let_pass
from .shapes import api_order

Describe = Callable[[TensorAttr, Port, Soc], None]


@on_any_context
def rknn_query(ctx: DeviceContext, cmd: int, info: int | None, size: int) -> None:
    """Answer a query into the caller's structure, which may be longer than ours but not shorter."""
    if cmd > max(Query):
        raise Failure(ErrorCode.PARAM_INVALID, f"cmd = {cmd} is not in [0, {max(Query)}]!")
    rule = QUERIES.get(Query(cmd)) if cmd in set(Query) else None
    if rule is not None and ctx.soc.family not in rule.families:
        raise Failure(ErrorCode.PARAM_INVALID, f"command {cmd} is not supported on {ctx.soc.name}")
    if not info:
        raise Failure(ErrorCode.PARAM_INVALID, "info == nullptr!")
    if rule is None:
        raise Failure(ErrorCode.FAIL, f"unsupported cmd({cmd})!")
    query = Query(cmd)
    needed = _LEAST_SIZES.get(query, ctypes.sizeof(rule.structure))
    if size < needed:
        name = next(name for name, declared in STRUCTURES.items() if declared is rule.structure)
        raise Failure(ErrorCode.PARAM_INVALID, f"info_len({size}) < sizeof({name})({needed})!")
    if isinstance(ctx, Context):
        _check_shapes(ctx, query)
    answer = rule.structure.from_address(info)
    if size < ctypes.sizeof(answer):
        answer = rule.structure()
    _answer(ctx, query, answer)
    if size < ctypes.sizeof(answer):
        ctypes.memmove(info, ctypes.byref(answer), size)


def _answer(ctx: DeviceContext, query: Query, answer: ctypes.Structure) -> None:
    if isinstance(ctx, Context):
        _ANSWERS[query](ctx, answer)
    elif query is Query.SDK_VERSION:
        _sdk_version(ctx, answer)
    else:
        raise Failure(
            ErrorCode.CTX_INVALID, f"the context is for {ctx.purpose}, which has no {query.symbol}"
        )


_LEAST_SIZES = {Query.MEM_SIZE: 8}
"""Structures of which the runtime fills in as much as there is room for."""

_CURRENT = {
    Query.CURRENT_INPUT_ATTR: ErrorCode.MODEL_INVALID,
    Query.CURRENT_OUTPUT_ATTR: ErrorCode.MODEL_INVALID,
    Query.CURRENT_NATIVE_INPUT_ATTR: ErrorCode.CTX_INVALID,
    Query.CURRENT_NATIVE_OUTPUT_ATTR: ErrorCode.CTX_INVALID,
}
"""Queries for dynamic models alone, and what others get."""


def _check_shapes(ctx: Context, query: Query) -> None:
    """Refuse what needs shapes that were set, or a model of fixed ones."""
    name = query.symbol
    if query in _CURRENT and not ctx.is_dynamic:
        raise Failure(
            _CURRENT[query],
            f"query {name} error, rknn model is static shape type, please export rknn with "
            "dynamic_shapes",
        )
    if query in _CURRENT and not ctx.has_shapes:
        raise Failure(
            ErrorCode.CTX_INVALID, f"query {name} error, please call rknn_set_input_shapes first"
        )
    if query is Query.NATIVE_NHWC_OUTPUT_ATTR and ctx.is_dynamic:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"query {name} failed, command is invalid for dynamic shapes rknn model!",
        )


def _in_out_num(ctx: Context, info: InputOutputNum) -> None:
    info.n_input = len(ctx.shapes.inputs)
    info.n_output = len(ctx.shapes.outputs)


def _tensor(
    side: str, describe: Describe, *, is_native: bool = False
) -> Callable[[Context, TensorAttr], None]:
    """An answer about one tensor under the shapes in use, the largest before any were set.

    Native attributes of a dynamic model are always of the largest.
    """

    def answer(ctx: Context, attr: TensorAttr) -> None:
        shapes: Variant = ctx.shapes
        if is_native and ctx.is_dynamic:
            log.warning(f"query of the native {side}s: it will return max {side} native shape!")
            shapes = ctx.program.variant(ctx.program.largest)
        ports = shapes.inputs if side == "input" else shapes.outputs
        if attr.index >= len(ports):
            text = f"{side} index {attr.index} is not below {len(ports)}"
            if is_native and side == "output":
                raise crash("native output index", text)
            raise Failure(ErrorCode.PARAM_INVALID, text)
        describe(attr, ports[attr.index], ctx.soc)

    return answer


def _input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    # The small runtime knows native inputs only.
    is_native = soc.family is Family.RV1106
    (attributes.native_input if is_native else attributes.general_input)(attr, port, soc)


def _dynamic_range(ctx: Context, info: InputRange) -> None:
    sets = ctx.program.input_shapes
    ports = ctx.shapes.inputs
    if len(sets) == 1:
        raise Failure(ErrorCode.MODEL_INVALID, "the model has static shapes only", is_warning=True)
    if info.index >= len(ports):
        raise Failure(
            ErrorCode.PARAM_INVALID, f"input index {info.index} is not below {len(ports)}"
        )
    port = ports[info.index]
    info.shape_number = len(sets)
    info.fmt = TensorFormat.NHWC if len(port.shape) == 4 else TensorFormat.UNDEFINED
    info.name = port.name.encode()[: MAX_NAME_LEN - 1]
    info.n_dims = len(port.shape)
    for number, shapes in enumerate(sets):
        shape = api_order(port, shapes[info.index])
        info.dyn_range[number][:] = shape + (0,) * (MAX_DIMS - len(shape))


def _perf_run(ctx: Context, info: PerfRun) -> None:
    if ctx.run_microseconds is None:
        let_pass("performance before a run", "RKNN_QUERY_PERF_RUN needs a rknn_run before it")
    info.run_duration = ctx.run_microseconds or 0


def _perf_detail(ctx: Context, info: PerfDetail) -> None:
    text = b""
    if ctx.run_microseconds is None:
        let_pass("performance before a run", "RKNN_QUERY_PERF_DETAIL needs a rknn_run before it")
    elif ctx.flags & InitFlag.COLLECT_PERF_MASK:
        text = perf_detail.table(ctx).encode()
    else:
        # The vendor's own programs ask without the flag, and end where that fails.
        log.warning("rknn_query, RKNN_QUERY_PERF_DETAIL needs RKNN_FLAG_COLLECT_PERF_MASK")
    # C sees the text until the next query, or the context's end.
    ctx.perf_text = ctypes.create_string_buffer(text)
    info.perf_data = ctypes.cast(ctx.perf_text, ctypes.POINTER(ctypes.c_char))
    info.data_len = len(text)


def _sdk_version(ctx: DeviceContext, info: Any) -> None:
    info.api_version = lifecycle.api_version().encode()
    info.drv_version = lifecycle.DRIVER.encode()


def _mem_size(ctx: Context, info: MemSize) -> None:
    lowered = ctx.footprint
    weights, internal = lowered.weight_bytes, lowered.peak_intermediate_bytes
    ports = () if lowered.includes_edges else (*ctx.shapes.inputs, *ctx.shapes.outputs)
    edges = sum(port.dtype.size_of(port.elements) for port in ports)
    outside = ctx.flags & InitFlag.MEM_ALLOC_OUTSIDE
    info.total_weight_size = min(weights, 2**32 - 1)
    info.total_internal_size = min(internal, 2**32 - 1)
    info.total_dma_allocated_size = 0 if outside else weights + internal + edges
    info.total_sram_size = ctx.soc.sram_bytes
    info.free_sram_size = ctx.device.free_sram


def _custom_string(ctx: Context, info: CustomString) -> None:
    # All of it is written, as on a board; assigning a shorter text leaves what is after its end.
    ctypes.memset(ctypes.addressof(info), 0, ctypes.sizeof(info))
    info.string = ctx.program.custom_string.encode()[: CustomString.string.size - 1]


_ANSWERS: dict[Query, Callable[[Context, Any], None]] = {
    Query.IN_OUT_NUM: _in_out_num,
    Query.INPUT_ATTR: _tensor("input", _input),
    Query.OUTPUT_ATTR: _tensor("output", attributes.general_output),
    Query.PERF_DETAIL: _perf_detail,
    Query.PERF_RUN: _perf_run,
    Query.SDK_VERSION: _sdk_version,
    Query.MEM_SIZE: _mem_size,
    Query.CUSTOM_STRING: _custom_string,
    Query.NATIVE_INPUT_ATTR: _tensor("input", attributes.native_input, is_native=True),
    Query.NATIVE_OUTPUT_ATTR: _tensor("output", attributes.native_output, is_native=True),
    Query.NATIVE_NHWC_INPUT_ATTR: _tensor("input", attributes.nhwc_input, is_native=True),
    Query.NATIVE_NHWC_OUTPUT_ATTR: _tensor("output", attributes.nhwc_output),
    Query.INPUT_DYNAMIC_RANGE: _dynamic_range,
    Query.CURRENT_INPUT_ATTR: _tensor("input", attributes.general_input),
    Query.CURRENT_OUTPUT_ATTR: _tensor("output", attributes.general_output),
    Query.CURRENT_NATIVE_INPUT_ATTR: _tensor("input", attributes.native_input),
    Query.CURRENT_NATIVE_OUTPUT_ATTR: _tensor("output", attributes.native_output),
}
