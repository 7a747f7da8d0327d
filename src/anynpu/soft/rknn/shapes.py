"""rknn_set_input_shapes and the deprecated rknn_set_input_shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ModelError
from ...rknn.abi import MAX_DIMS, MAX_NAME_LEN, ErrorCode, TensorFormat
from ..engines import Port
from .contexts import Context, on_context, refuse_in_callback
from .failure import Failure, check_array
from .leniency import let_pass


@on_context
def rknn_set_input_shapes(ctx: Context, n_inputs: int, attr: Any) -> None:
    """Take up a set of input shapes from the model's list; inputs and outputs begin anew.

    The name says which input an entry is for.
    """
    refuse_in_callback(ctx)
    ports = ctx.shapes.inputs
    if not attr or n_inputs > len(ports):
        check_array(attr, n_inputs, len(ports), "inputs")
    if not ctx.is_dynamic:
        raise Failure(
            ErrorCode.MODEL_INVALID,
            "rknn_set_input_shapes error, rknn model is static shape type, please export rknn "
            "with dynamic_shapes",
        )
    if n_inputs != len(ports):
        raise Failure(ErrorCode.PARAM_INVALID, f"n_inputs({n_inputs}) is not {len(ports)}")
    given = attr[:n_inputs]
    _check_indices(given, ports)
    wanted = {entry.name: _model_order(entry) for entry in given}
    chosen = tuple(wanted.get(port.name.encode()[: MAX_NAME_LEN - 1], ()) for port in ports)
    if chosen not in ctx.program.input_shapes:
        raise Failure(ErrorCode.FAIL, _supported(ctx, given))
    number = ctx.program.input_shapes.index(chosen)
    try:
        ctx.program.variant(number)
    except ModelError as error:
        raise Failure(ErrorCode.FAIL, str(error)) from error
    ctx.has_shapes = True
    if number == ctx.variant:
        return
    ctx.select(number)
    if ctx.operators is not None:
        ctx.operators.reshape()


@on_context
def rknn_set_input_shape(ctx: Context, attr: Any) -> None:
    """Deprecated since 1.5.2 and not available: refused."""
    raise Failure(
        ErrorCode.FAIL, "this call is deprecated and not available, use rknn_set_input_shapes"
    )


def api_order(port: Port, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as the API shows it: images as NHWC."""
    return (shape[0], *shape[2:], shape[1]) if len(port.shape) == 4 else shape


def _model_order(given: Any) -> tuple[int, ...]:
    """The shape that an entry asks for, in the model's order; images are NHWC."""
    if not 0 < given.n_dims <= MAX_DIMS:
        raise Failure(ErrorCode.PARAM_INVALID, f"n_dims({given.n_dims}) is not in 1..{MAX_DIMS}")
    if given.fmt not in (TensorFormat.NHWC, TensorFormat.UNDEFINED):
        name = given.name.decode(errors="replace")
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"rknn_set_input_shapes error, {name} fmt({given.fmt}) is invalid, only support NHWC "
            "or UNDEFINED layout input",
        )
    dims = tuple(given.dims[: given.n_dims])
    if len(dims) == 4:
        return dims[0], dims[3], dims[1], dims[2]
    return dims


def _check_indices(given: Sequence[Any], ports: Sequence[Port]) -> None:
    names = [port.name.encode()[: MAX_NAME_LEN - 1] for port in ports]
    for entry in given:
        if entry.name in names and entry.index != names.index(entry.name):
            let_pass(
                "shape index",
                f"the index of input {entry.name.decode(errors='replace')!r} is {entry.index}; "
                "the name counts",
            )


def _supported(ctx: Context, given: Any) -> str:
    """The vendor's message: what each input may have, and what was asked."""
    lines = []
    for index, port in enumerate(ctx.shapes.inputs):
        layout = "NHWC" if len(port.shape) == 4 else "UNDEFINED"
        lines.append(
            f"rknn_set_input_shapes error, input name = {port.name} supported input shapes are as "
            f"follows:"
        )
        lines += [
            f" shape = [{','.join(map(str, api_order(port, shapes[index])))}], layout = {layout}"
            for shapes in ctx.program.input_shapes
        ]
    for attr in given:
        dims = ", ".join(map(str, attr.dims[: min(attr.n_dims, MAX_DIMS)]))
        name = attr.name.decode(errors="replace")
        fmt = TensorFormat(attr.fmt).name if attr.fmt in set(TensorFormat) else attr.fmt
        lines.append(
            f"while get rknn_tensor_attr[{attr.index}].name = {name}, dims = [{dims}], fmt = {fmt}"
        )
    return "\n".join(lines)
