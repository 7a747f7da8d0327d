"""rknn_register_custom_ops and rknn_custom_op_get_op_attr."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import ModelError
from ...rknn.abi import (
    MAX_NAME_LEN,
    CustomOp,
    CustomOpCallback,
    CustomOpDestroyCallback,
    ErrorCode,
    TargetType,
    TensorType,
)
from ...tensor import DType
from ..cabi.memory_views import readable
from ..engines import Customization, CustomNode
from . import board_refusals, custom_ops_calls, log
from .contexts import Context, on_context, refuse_in_callback
from .custom_ops_calls import Callback, NodeCall, Operator
from .custom_ops_opencl import KernelSource, read_source
from .custom_ops_tensors import TensorStore
from .failure import Failure, check_array

_MOST_OPERATORS = 1024
_LARGEST_SOURCE = 1 << 24


@on_context
def rknn_register_custom_ops(ctx: Context, op: Any, custom_op_num: int) -> None:
    """Make operators known to a context, and call init for each of their nodes; calls add up."""
    refuse_in_callback(ctx)
    check_array(op, custom_op_num, _MOST_OPERATORS, "op")
    operators = [_operator(op[index]) for index in range(custom_op_num)]
    if ctx.operators is None:
        ctx.operators = CustomOperators(ctx)
    ctx.operators.add(operators)


def rknn_custom_op_get_op_attr(op_ctx: Any, attr_name: bytes | None, op_attr: Any) -> None:
    """An attribute of the node that a callback is called for; `n_elems` 0 where it has none."""
    if not op_attr:
        raise Failure(ErrorCode.PARAM_INVALID, "the op_attr pointer is NULL")
    attribute = op_attr.contents
    attribute.name = (attr_name or b"")[: MAX_NAME_LEN - 1]
    attribute.n_elems, attribute.data = 0, None
    attribute.dtype = TensorType.FLOAT32
    if not op_ctx or attr_name is None:
        raise Failure(ErrorCode.PARAM_INVALID, "the op_ctx or the attr_name pointer is NULL")
    call = custom_ops_calls.find(op_ctx.contents.internal_ctx)
    if call is None:
        raise Failure(ErrorCode.CTX_INVALID, "the op_ctx is not one of a custom op that is alive")
    values = call.values.get(attr_name.decode(errors="replace"))
    if values is None:
        return
    dtype = DType.from_numpy(values.dtype)
    assert dtype is not None, "others were left out"
    attribute.dtype = TensorType[dtype.name]
    attribute.n_elems = values.size
    attribute.data = values.ctypes.data


class CustomOperators:
    """The operators that were registered with one context, and the nodes that they compute."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._operators: dict[str, Operator] = {}
        self._store = TensorStore(ctx)
        self._calls: dict[int, NodeCall] = {}
        self._builtin: set[int] = set()

    def add(self, operators: Sequence[Operator]) -> None:
        """Register operators; where that fails, nothing is registered that wasn't before."""
        new: dict[str, Operator] = {}
        for operator in operators:
            if operator.op_type in self._operators or operator.op_type in new:
                raise Failure(
                    ErrorCode.PARAM_INVALID, f"custom op {operator.op_type} is registered already"
                )
            new[operator.op_type] = operator
        calls, builtin = self._begin(new)
        try:
            self._install({**self._calls, **calls}, self._builtin | builtin)
        except BaseException:
            self._end(calls)
            raise
        self._operators |= new

    def reshape(self) -> None:
        """End the nodes and begin them anew, with the tensors of other input shapes."""
        self.close()
        self._install(*self._begin(self._operators))

    def close(self) -> None:
        """Call destroy for every node, and free the tensors."""
        calls, self._calls, self._builtin = self._calls, {}, set()
        self._end(calls)

    def _begin(self, operators: dict[str, Operator]) -> tuple[dict[int, NodeCall], set[int]]:
        """Call init for each node of these operators."""
        ctx = self._ctx
        _ = ctx.arrays
        calls: dict[int, NodeCall] = {}
        builtin: set[int] = set()
        try:
            for node in _nodes(ctx, operators):
                operator = operators.get(node.op_type)
                if operator is None:
                    continue
                shown = _as_real_numbers(node) if operator.kernel else node
                call = NodeCall(
                    ctx,
                    shown,
                    operator,
                    self._store.get(shown.inputs),
                    self._store.get(shown.outputs),
                )
                if call.init():
                    calls[node.index] = call
                else:
                    builtin.add(_with_builtin(node))
        except BaseException:
            self._end(calls)
            raise
        return calls, builtin

    def _install(self, calls: dict[int, NodeCall], builtin: set[int]) -> None:
        """Let the context compute with these nodes; the inputs that were set stay set."""
        ctx = self._ctx
        old = ctx.arrays
        try:
            new = ctx.program.instance(
                ctx.variant,
                board_refusals.customization(
                    ctx.program, ctx.variant, Customization(calls, frozenset(builtin))
                ),
            )
        except ModelError as error:
            raise Failure(ErrorCode.FAIL, str(error)) from error
        for source, target in zip(old.inputs, new.inputs, strict=True):
            target[...] = source
        old.close()
        ctx.instance = new
        self._calls, self._builtin = calls, builtin

    def _end(self, calls: dict[int, NodeCall]) -> None:
        for call in calls.values():
            call.destroy()
        kept = [call.node for call in self._calls.values()]
        self._store.keep_only({port for node in kept for port in (*node.inputs, *node.outputs)})


def _nodes(ctx: Context, operators: dict[str, Operator]) -> tuple[CustomNode, ...]:
    try:
        nodes = ctx.program.custom_nodes(ctx.variant, operators)
    except ModelError as error:
        raise Failure(ErrorCode.FAIL, str(error)) from error
    for node in nodes:
        for name in node.assumed:
            log.warning(
                f"the model gives no shape for {name!r}, an output of {node.op_type}: it is taken "
                f"to be that of the first input, {list(node.inputs[0].shape)}"
            )
    return nodes


def _as_real_numbers(node: CustomNode) -> CustomNode:
    """The node as a kernel of OpenCL sees it: Rockchip's knows no other type than float."""
    inputs, outputs = (
        tuple(replace(port, dtype=DType.FLOAT32) for port in ports)
        for ports in (node.inputs, node.outputs)
    )
    return replace(node, inputs=inputs, outputs=outputs)


def _with_builtin(node: CustomNode) -> int:
    """The node's index, if the runtime has an operator of its own to fall back on."""
    if not node.has_builtin:
        raise Failure(
            ErrorCode.FAIL,
            f"custom op {node.op_type}, node {node.name}: init leaves it to the runtime, which has "
            f"no operator of that name",
        )
    return node.index


# ------------------------------------------------------------------------------ registration


def _operator(given: CustomOp) -> Operator:
    """A copy of what the program passed, which may free it after the call."""
    op_type = given.op_type.decode(errors="replace")
    if not op_type:
        raise Failure(ErrorCode.PARAM_INVALID, "op_type is empty")
    try:
        target = TargetType(given.target)
    except ValueError:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"custom op {op_type}: target {given.target} is unknown"
        ) from None
    compute = _callback(given, "compute")
    if compute is None:
        raise Failure(ErrorCode.PARAM_INVALID, f"custom op {op_type}: compute is NULL")
    if _callback(given, "compute_native") is not None:
        log.warning(f"custom op {op_type}: compute_native is not supported and is not called")
    return Operator(
        op_type,
        target,
        compute,
        _callback(given, "init"),
        _callback(given, "prepare"),
        _callback(given, "destroy"),
        _kernel_source(given, op_type) if target is TargetType.GPU else None,
    )


def _callback(given: CustomOp, name: str) -> Callback | None:
    address = _pointer(given, name)
    kind = CustomOpDestroyCallback if name == "destroy" else CustomOpCallback
    return kind(address) if address else None


def _pointer(given: CustomOp, name: str) -> int:
    """A pointer in the structure as a number: ctypes would read what it points to."""
    offset = getattr(CustomOp, name).offset
    return ctypes.c_void_p.from_buffer(given, offset).value or 0


def _kernel_source(given: CustomOp, op_type: str) -> KernelSource:
    address, size = _pointer(given, "cl_kernel_source"), given.cl_source_size
    name = given.cl_kernel_name.decode(errors="replace")
    if not address or not name or size > _LARGEST_SOURCE:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"custom op {op_type}: a GPU op needs cl_kernel_name and cl_kernel_source, of at most "
            f"{_LARGEST_SOURCE} bytes",
        )
    if size:
        text = bytes(readable(address, size)).rstrip(b"\0").decode(errors="replace")
    else:
        text = read_source(ctypes.string_at(address))
    return KernelSource(text, name, given.cl_build_options.decode(errors="replace"))
