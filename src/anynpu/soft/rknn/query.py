"""rknn_query: one function for each command."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ...rknn.abi import (
    QUERIES,
    STRUCTURES,
    CustomString,
    ErrorCode,
    InputOutputNum,
    PerfRun,
    Query,
    SdkVersion,
    TensorAttr,
)
from ..engines import Port
from . import attributes, lifecycle
from .contexts import Context, borrow
from .failure import Failure


def rknn_query(context: int, cmd: int, info: int | None, size: int) -> None:
    """Answer a query into the caller's structure, which may be longer than ours but not shorter."""
    with borrow(context) as ctx:
        try:
            query = Query(cmd)
            answer = _ANSWERS[query]
        except (ValueError, KeyError):
            raise Failure(ErrorCode.PARAM_INVALID, f"command {cmd} is unknown") from None
        if not info:
            raise Failure(ErrorCode.PARAM_INVALID, "the info pointer is NULL")
        structure = QUERIES[query].structure
        needed = ctypes.sizeof(structure)
        if size < needed:
            name = _c_name(structure)
            raise Failure(ErrorCode.PARAM_INVALID, f"info_len({size}) < sizeof({name})({needed})!")
        answer(ctx, structure.from_address(info))


def _in_out_num(ctx: Context, info: InputOutputNum) -> None:
    info.n_input = len(ctx.program.inputs)
    info.n_output = len(ctx.program.outputs)


def _input_attr(ctx: Context, attr: TensorAttr) -> None:
    attributes.general_input(attr, _port(ctx.program.inputs, attr.index, "input"), ctx.soc)


def _output_attr(ctx: Context, attr: TensorAttr) -> None:
    attributes.general_output(attr, _port(ctx.program.outputs, attr.index, "output"), ctx.soc)


def _perf_run(ctx: Context, info: PerfRun) -> None:
    if ctx.run_microseconds is None:
        raise Failure(ErrorCode.FAIL, "RKNN_QUERY_PERF_RUN needs a rknn_run before it")
    info.run_duration = ctx.run_microseconds


def _sdk_version(ctx: Context, info: SdkVersion) -> None:
    info.api_version = lifecycle.API.encode()
    info.drv_version = lifecycle.DRIVER.encode()


def _custom_string(ctx: Context, info: CustomString) -> None:
    info.string = ctx.program.custom_string.encode()[: CustomString.string.size - 1]


def _port(ports: tuple[Port, ...], index: int, side: str) -> Port:
    if index >= len(ports):
        raise Failure(ErrorCode.PARAM_INVALID, f"{side} index {index} is not below {len(ports)}")
    return ports[index]


def _c_name(structure: type[ctypes.Structure]) -> str:
    return next(name for name, declared in STRUCTURES.items() if declared is structure)


_ANSWERS: dict[Query, Callable[[Context, Any], None]] = {
    Query.IN_OUT_NUM: _in_out_num,
    Query.INPUT_ATTR: _input_attr,
    Query.OUTPUT_ATTR: _output_attr,
    Query.PERF_RUN: _perf_run,
    Query.SDK_VERSION: _sdk_version,
    Query.CUSTOM_STRING: _custom_string,
}
