"""rknn_B_normal_layout_to_native_layout, in both of its forms."""

from __future__ import annotations

import ctypes

import numpy as np

from ....matmul_layouts import BlockedB, pack_int4, unpack_int4
from ....rknn.abi import ErrorCode, MatmulInfo, MatmulLayout, MatmulType
from ....rknn.matmul_rules import Product
from ....tensor import DType
from ...cabi.memory import readable, writable
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
    product, blocks = _asked_for(K, N, info_or_sub_n or 0, sub_k, type)
    check_product(product)
    blocks = blocks or product.native_b
    dtype = product.operands.b
    source = np.frombuffer(readable(B_input, dtype.size_of(K * N)), np.uint8)
    if dtype is DType.INT4:
        packed = blocks.pack(unpack_int4(source, K * N).reshape(K, N))
        result = pack_int4(packed, high_first=True)
    else:
        result = blocks.pack(source.view(dtype.numpy).reshape(K, N)).view(np.uint8)
    writable(B_output, result.size)[:] = result.data


def _asked_for(
    k: int, n: int, info_or_sub_n: int, sub_k: int, kind: int
) -> tuple[Product, BlockedB | None]:
    """The product that B is for; and the blocks, where the caller names them."""
    soc = chip()
    if info_or_sub_n > _LARGEST_BLOCK:
        info = MatmulInfo.from_address(info_or_sub_n)
        chosen = member(MatmulType, info.type, "type")
        return Product(soc, chosen, 1, k, n, MatmulLayout.NATIVE), None
    chosen = member(MatmulType, ctypes.c_int(kind).value, "type")
    product = Product(soc, chosen, 1, k, n, MatmulLayout.NATIVE)
    check_product(product)
    segment = product.native_b.segment
    is_whole = 0 < sub_k <= _LARGEST_BLOCK and (not segment or segment % sub_k == 0)
    if info_or_sub_n < 1 or not is_whole:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"subN({info_or_sub_n}) or subK({sub_k}) is not a block's size"
        )
    return product, BlockedB(info_or_sub_n, sub_k, segment)
