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
    SdkVersion,
    TensorAttr,
    TensorFormat,
)
from ...soc import Family, Soc
from ..engines import Port, Variant
from . import attributes, lifecycle, log, perf_detail
from .contexts import Context, on_context
from .failure import Failure
from .shapes import api_order

Describe = Callable[[TensorAttr, Port, Soc], None]


@on_context
def rknn_query(ctx: Context, cmd: int, info: int | None, size: int) -> None:
    """Answer a query into the caller's structure, which may be longer than ours but not shorter."""
    rule = QUERIES.get(Query(cmd)) if cmd in set(Query) else None
    if rule is None or ctx.soc.family not in rule.families:
        raise Failure(ErrorCode.PARAM_INVALID, f"command {cmd} is not supported on {ctx.soc.name}")
    if not info:
        raise Failure(ErrorCode.PARAM_INVALID, "the info pointer is NULL")
    needed = ctypes.sizeof(rule.structure)
    if size < needed:
        name = next(name for name, declared in STRUCTURES.items() if declared is rule.structure)
        raise Failure(ErrorCode.PARAM_INVALID, f"info_len({size}) < sizeof({name})({needed})!")
    _ANSWERS[Query(cmd)](ctx, rule.structure.from_address(info))


def _in_out_num(ctx: Context, info: InputOutputNum) -> None:
    info.n_input = len(ctx.shapes.inputs)
    info.n_output = len(ctx.shapes.outputs)


def _tensor(
    side: str, describe: Describe, *, current: bool = False
) -> Callable[[Context, TensorAttr], None]:
    """An answer about one tensor: under the largest set of shapes, or under the one in use."""

    def answer(ctx: Context, attr: TensorAttr) -> None:
        shapes: Variant = ctx.program.variant(ctx.variant if current else ctx.program.largest)
        ports = shapes.inputs if side == "input" else shapes.outputs
        if attr.index >= len(ports):
            raise Failure(
                ErrorCode.PARAM_INVALID, f"{side} index {attr.index} is not below {len(ports)}"
            )
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
        raise Failure(ErrorCode.FAIL, "RKNN_QUERY_PERF_RUN needs a rknn_run before it")
    info.run_duration = ctx.run_microseconds


def _perf_detail(ctx: Context, info: PerfDetail) -> None:
    if ctx.run_microseconds is None:
        raise Failure(ErrorCode.FAIL, "RKNN_QUERY_PERF_DETAIL needs a rknn_run before it")
    text = b""
    if ctx.flags & InitFlag.COLLECT_PERF_MASK:
        text = perf_detail.table(ctx).encode()
    else:
        # The vendor's own programs ask without the flag, and end where that fails.
        log.warning("rknn_query, RKNN_QUERY_PERF_DETAIL needs RKNN_FLAG_COLLECT_PERF_MASK")
    # C sees the text until the next query, or the context's end.
    ctx.perf_text = ctypes.create_string_buffer(text)
    info.perf_data = ctypes.cast(ctx.perf_text, ctypes.POINTER(ctypes.c_char))
    info.data_len = len(text)


def _sdk_version(ctx: Context, info: SdkVersion) -> None:
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
    Query.NATIVE_INPUT_ATTR: _tensor("input", attributes.native_input),
    Query.NATIVE_OUTPUT_ATTR: _tensor("output", attributes.native_output),
    Query.NATIVE_NHWC_INPUT_ATTR: _tensor("input", attributes.nhwc_input),
    Query.NATIVE_NHWC_OUTPUT_ATTR: _tensor("output", attributes.nhwc_output),
    Query.INPUT_DYNAMIC_RANGE: _dynamic_range,
    Query.CURRENT_INPUT_ATTR: _tensor("input", attributes.general_input, current=True),
    Query.CURRENT_OUTPUT_ATTR: _tensor("output", attributes.general_output, current=True),
    Query.CURRENT_NATIVE_INPUT_ATTR: _tensor("input", attributes.native_input, current=True),
    Query.CURRENT_NATIVE_OUTPUT_ATTR: _tensor("output", attributes.native_output, current=True),
}
