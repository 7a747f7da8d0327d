"""rknn_matmul_set_quant_params and rknn_matmul_get_quant_params."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....rknn.abi import ErrorCode, MatmulQuantization, MatmulType
from ....tensor import DType
from ..failure import Failure
from .compute import normal_scale
from .context import MatmulContext, on_matmul
from .scaling import PLAIN, Scaling

_RANGES = {DType.INT8: (-128, 127), DType.INT4: (-8, 7)}
"""Of the zero points of a matrix."""
_NORMALISED = (MatmulType.INT8_MM_INT8_TO_INT32, MatmulType.INT8_MM_INT4_TO_INT32)


@on_matmul
def rknn_matmul_set_quant_params(context: MatmulContext, params: Any) -> None:
    """Set the scales and zero points of the matrix that `params` names; they are copied."""
    given = _named(params, context)
    name = given.name.decode()
    if not given.scale or given.scale_len < 1:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"{name}: scale is NULL or scale_len({given.scale_len}) < 1"
        )
    expected = _expected(context, name, given.scale_len)
    if given.scale_len != expected or given.zp_len not in (0, expected):
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"{name}: scale_len({given.scale_len}) must be {expected}, zp_len({given.zp_len}) the "
            "same or 0",
        )
    if given.zp_len and not given.zp:
        raise Failure(ErrorCode.PARAM_INVALID, f"{name}: zp is NULL, zp_len is {given.zp_len}")
    scales = np.ctypeslib.as_array(given.scale, (expected,)).astype(np.float32)
    zero_points = np.zeros(expected, np.int32)
    if given.zp_len:
        zero_points[:] = np.ctypeslib.as_array(given.zp, (expected,))
    scaling = Scaling(scales, zero_points)
    _check_values(context, name, scaling)
    context.change()
    context.scalings[name] = scaling


@on_matmul
def rknn_matmul_get_quant_params(ctx: MatmulContext, params: Any, scale: Any) -> None:
    """Tell what A's scale is to be multiplied by to get that of an int32 C: one number.

    Only the name in `params` is read: what its pointers lead to may be freed by now.
    """
    if _named(params, ctx).name != b"B" or not scale:
        raise Failure(ErrorCode.PARAM_INVALID, "the matrix must be B, and scale not NULL")
    product = ctx.product
    if product.kind not in _NORMALISED or not product.is_per_channel:
        names = " and ".join(kind.symbol for kind in _NORMALISED)
        raise Failure(ErrorCode.PARAM_INVALID, f"only {names} with PER_CHANNEL quantisation")
    scale[0] = normal_scale(ctx.scalings.get("B", PLAIN))


def check_scales(context: MatmulContext) -> None:
    """PARAM_INVALID where the shape in use has another number of scales than were set."""
    scaling = context.scalings.get("B")
    if scaling is None or scaling.scales.size == 1:
        return
    expected = _expected(context, "B", scaling.scales.size)
    if scaling.scales.size != expected:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"B has {scaling.scales.size} scales, the shape in use needs {expected}",
        )


def _named(params: Any, context: MatmulContext) -> Any:
    if not params:
        raise Failure(ErrorCode.PARAM_INVALID, "the params pointer is NULL")
    if params.contents.name.decode(errors="replace") not in context.product.dtypes:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"there is no matrix {params.contents.name!r}, only A, B, C"
        )
    return params.contents


def _expected(context: MatmulContext, name: str, given: int) -> int:
    """How many scales a matrix has; in 2.0.0b0 the number of PER_LAYER_ASYM meant per channel."""
    product = context.product
    if name != "B":
        return 1
    is_old = product.b_quantization is MatmulQuantization.PER_LAYER_ASYM
    return product.n if is_old and given == product.n else product.b_scales


def _check_values(context: MatmulContext, name: str, scaling: Scaling) -> None:
    if not (np.isfinite(scaling.scales).all() and (scaling.scales > 0).all()):
        raise Failure(ErrorCode.PARAM_INVALID, f"{name}: scales must be positive numbers")
    if not scaling.is_shifted:
        return
    dtype = context.product.dtypes[name]
    low, high = _RANGES.get(dtype, (0, 0))
    if scaling.zero_points.min() < low or scaling.zero_points.max() > high:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"{name}: zero points of {dtype.name} must be in {low}..{high}",
        )
    if name == "B" and context.product.is_symmetric:
        way = context.product.b_quantization.symbol
        raise Failure(ErrorCode.PARAM_INVALID, f"B: with {way} zero points must be 0")
