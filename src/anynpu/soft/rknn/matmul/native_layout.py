"""rknn_B_normal_layout_to_native_layout, in both of its forms."""

from __future__ import annotations

import numpy as np

from ....matmul_layouts import pack_int4, unpack_int4
from ....rknn.abi import ErrorCode, MatmulInfo, MatmulLayout, MatmulType
from ....rknn.matmul_product import Product
from ....tensor import DType
from ...cabi.memory_views import readable, writable
from ..failure import Failure
from .create import check_product, chip, member

_LARGEST_BLOCK = 65535
"""What is greater is a pointer: that of the newer form."""


def rknn_B_normal_layout_to_native_layout(
    B_input: int | None,
    B_output: int | None,
    K: int,
    N: int,
    info_or_sub_n: int | None,
    sub_k: int,
    type: int,
) -> None:
    """Write B (K, N) to `B_output` as the NPU reads it; the two may be the same memory.

    Since 2.1.0 the fifth argument is a structure and the last there is; before, the fifth to
    seventh were the blocks and the type.
    """
    if not B_input or not B_output:
        raise Failure(ErrorCode.PARAM_INVALID, "a pointer to B is NULL")
    product = _product(K, N, info_or_sub_n or 0, sub_k, type)
    dtype, blocks = product.operands.b, product.native_b
    source = np.frombuffer(readable(B_input, dtype.size_of(K * N)), np.uint8)
    if dtype is DType.INT4:
        packed = blocks.pack(unpack_int4(source, K * N).reshape(K, N))
        result = pack_int4(packed, high_first=True)
    else:
        result = blocks.pack(source.view(dtype.numpy).reshape(K, N)).view(np.uint8)
    writable(B_output, result.size)[:] = result.data


def _product(k: int, n: int, info_or_sub_n: int, sub_k: int, kind: int) -> Product:
    """The product that B is for."""
    is_new = info_or_sub_n > _LARGEST_BLOCK
    number = MatmulInfo.from_address(info_or_sub_n).type if is_new else kind
    product = Product(chip(), member(MatmulType, number, "type"), 1, k, n, MatmulLayout.NATIVE)
    check_product(product)
    if not is_new and (info_or_sub_n, sub_k) != (product.blocks.n, product.blocks.k):
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"subN({info_or_sub_n}) and subK({sub_k}) must be {product.blocks.n} and "
            f"{product.blocks.k}, the last two of B's dims",
        )
    return product
