"""rknn_matmul_create, its forms for several shapes, and rknn_matmul_destroy."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, TypeVar

from .... import soc as socs
from ....errors import OptionError
from ....rknn.abi import (
    MAX_DIMS,
    MAX_DYNAMIC_SHAPE_NUM,
    ErrorCode,
    MatmulLayout,
    MatmulQuantization,
    MatmulType,
    TensorType,
)
from ....rknn.matmul_product import Product
from ....soc import Family, Soc
from ...device import device_for
from ...device_memory import strict
from .. import contexts, lifecycle, log
from ..failure import Failure, check_array
from .context import MatmulContext

_E = TypeVar("_E", bound=enum.IntEnum)


def rknn_matmul_create(ctx: Any, info: Any, io_attr: Any) -> None:
    """A product of the shape in `info`; tells how the matrices lie in memory."""
    log.read_environment()
    _check_pointers(ctx, info, io_attr)
    ctx[0] = 0
    given = info.contents
    ctx[0] = _create(given, [(given.M, given.K, given.N)], [io_attr.contents])


def rknn_matmul_create_dynamic_shape(
    ctx: Any, info: Any, shape_num: int, dynamic_shapes: Any, io_attrs: Any
) -> None:
    """A product of one of several shapes at a time, the first to begin with."""
    log.read_environment()
    _check_pointers(ctx, info, io_attrs)
    ctx[0] = 0
    check_array(dynamic_shapes, shape_num, MAX_DYNAMIC_SHAPE_NUM, "shapes")
    shapes = [(s.M, s.K, s.N) for s in dynamic_shapes[:shape_num]]
    ctx[0] = _create(info.contents, shapes, [io_attrs[i] for i in range(shape_num)])


def rknn_matmul_create_dyn_shape(
    ctx: Any, info: Any, shape_num: int, dynamic_shapes: Any, io_attrs: Any
) -> None:
    """The name of 2.0.0b0."""
    rknn_matmul_create_dynamic_shape(ctx, info, shape_num, dynamic_shapes, io_attrs)


def rknn_matmul_destroy(ctx: int) -> None:
    """Free a product's context and its memory."""
    lifecycle.end(contexts.remove(ctx, MatmulContext))


def chip() -> Soc:
    """The chip to simulate: no model says which."""
    try:
        return socs.chosen() or socs.DEFAULT
    except OptionError as error:
        raise Failure(ErrorCode.TARGET_PLATFORM_UNMATCH, str(error)) from error


def member(enumeration: type[_E], value: int, field: str) -> _E:
    """The enumeration's member of a number in a structure."""
    try:
        return enumeration(value)
    except ValueError:
        raise Failure(ErrorCode.PARAM_INVALID, f"{field}({value}) is unknown") from None


def check_product(product: Product) -> None:
    """PARAM_INVALID for what the chip can't do."""
    problem = product.problem(keeps_guide=strict())
    if problem is not None:
        is_foreign = product.soc.family is Family.RV1106
        code = ErrorCode.TARGET_PLATFORM_UNMATCH if is_foreign else ErrorCode.PARAM_INVALID
        raise Failure(code, problem)
    if product.exceeds_guide:
        log.warning(
            f"N({product.n}) is more than the {product.blocks.largest_n} of the user guide's table"
        )


def _check_pointers(ctx: Any, info: Any, io_attr: Any) -> None:
    if not ctx:
        raise Failure(ErrorCode.CTX_INVALID, "the context pointer is NULL")
    for pointer, name in ((info, "info"), (io_attr, "io_attr")):
        if not pointer:
            raise Failure(ErrorCode.PARAM_INVALID, f"the {name} pointer is NULL")


def _create(info: Any, shapes: Sequence[tuple[int, int, int]], attrs: Sequence[Any]) -> int:
    products = [_product(info, shape) for shape in shapes]
    for product in products:
        check_product(product)
    for product, attr in zip(products, attrs, strict=True):
        _describe(product, attr)
    return contexts.CONTEXTS.add(MatmulContext(products, device_for(products[0].soc.name)))


def _product(info: Any, shape: tuple[int, int, int]) -> Product:
    """What the structure asks for; programs built for 1.6.0 and before pass its first 24 bytes."""
    b_quantization = member(MatmulQuantization, info.B_quant_type, "B_quant_type")
    product = Product(
        chip(),
        member(MatmulType, info.type, "type"),
        *shape,
        member(MatmulLayout, info.B_layout, "B_layout"),
        member(MatmulLayout, info.AC_layout, "AC_layout"),
        b_quantization,
        member(MatmulQuantization, info.AC_quant_type, "AC_quant_type"),
    )
    return product.with_group_size(info.group_size) if product.is_per_group else product


def _describe(product: Product, io_attr: Any) -> None:
    dtypes, sizes = product.dtypes, product.sizes
    for name, shape in product.shapes.items():
        attr = getattr(io_attr, name)
        attr.name = name.encode()
        attr.n_dims = len(shape)
        attr.dims[:] = shape + (0,) * (MAX_DIMS - len(shape))
        attr.size = sizes[name]
        attr.type = TensorType[dtypes[name].name]
