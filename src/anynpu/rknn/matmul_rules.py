"""What matrix products each chip can do: types, layouts, alignment, limits.

Sources: the comments of the vendor's matmul header (version 2.3.2), tables 3-5 to 3-7 of Rockchip's
user guide (2.3.0). Where they disagree about alignment, the header is followed, as the vendor's
demo programs do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..tensor import DType
from .abi import MatmulType

LARGEST_SIZE = 2**32 - 1
"""Bytes of a matrix: `size` in its attributes has 32 bits."""


@dataclass(frozen=True)
class Operands:
    """The element types of A, B and C."""

    a: DType
    b: DType
    c: DType

    @property
    def are_integers(self) -> bool:
        """Whether A and B are, so that sums are exact."""
        return self.a is not DType.FLOAT16


def operands(kind: MatmulType) -> Operands:
    """What a type's name says."""
    a, _, rest = kind.name.partition("_MM_")
    b, _, c = rest.partition("_TO_")
    return Operands(DType[a], DType[b], DType[c])


@dataclass(frozen=True)
class Blocks:
    """For one element type of A: the native blocks, and how large N may be.

    `a` is the block of A's columns, `n` and `k` those of B. K is a multiple of `k`, N of `n`.
    """

    a: int
    n: int
    k: int
    largest_n: int


@dataclass(frozen=True)
class ChipRules:
    """One chip: its types, its blocks by A's element type, B's rows in a part, limits.

    `is_limit_of_n_kept` says that more columns than the guide's table allows are refused; boards
    with RK3588 run them (8192, by a published benchmark).
    """

    types: tuple[MatmulType, ...]
    blocks: dict[DType, Blocks]
    segment: int | None = None
    largest_k: int | None = None
    has_transposed: bool = True
    is_limit_of_n_kept: bool = False


_T = MatmulType
_SMALL_TYPES = (_T.INT8_MM_INT8_TO_INT32, _T.FLOAT16_MM_FLOAT16_TO_FLOAT32)
_LARGE_BLOCKS = {
    DType.INT4: Blocks(32, 64, 32, 8192),
    DType.INT8: Blocks(16, 32, 32, 4096),
    DType.FLOAT16: Blocks(8, 16, 32, 4096),
}
_RK3562 = ChipRules(
    _SMALL_TYPES,
    {DType.INT8: Blocks(16, 16, 32, 4096), DType.FLOAT16: Blocks(8, 8, 32, 4096)},
    largest_k=10240,
    is_limit_of_n_kept=True,
)
_RK356X = ChipRules(
    _SMALL_TYPES,
    {DType.INT8: Blocks(8, 16, 32, 4096), DType.FLOAT16: Blocks(4, 8, 16, 4096)},
    largest_k=10240,
    has_transposed=False,
    is_limit_of_n_kept=True,
)
_RK3576 = ChipRules(
    (
        _T.FLOAT16_MM_FLOAT16_TO_FLOAT16,
        _T.FLOAT16_MM_FLOAT16_TO_FLOAT32,
        _T.INT8_MM_INT8_TO_INT32,
        _T.FLOAT16_MM_INT8_TO_FLOAT32,
        _T.FLOAT16_MM_INT4_TO_FLOAT16,
        _T.FLOAT16_MM_INT4_TO_FLOAT32,
        _T.INT8_MM_INT4_TO_INT32,
        # The header has these and the guide's table gives them to no chip: taken to be with the
        # other types whose B is narrower than A.
        _T.FLOAT16_MM_INT8_TO_FLOAT16,
        _T.FLOAT16_MM_INT4_TO_BFLOAT16,
        _T.INT8_MM_INT4_TO_FLOAT16,
    ),
    _LARGE_BLOCKS,
    segment=4096,
)
_RK3588 = ChipRules(
    (
        _T.FLOAT16_MM_FLOAT16_TO_FLOAT16,
        _T.FLOAT16_MM_FLOAT16_TO_FLOAT32,
        _T.INT8_MM_INT8_TO_INT32,
        _T.INT8_MM_INT8_TO_FLOAT32,
        _T.INT8_MM_INT8_TO_INT8,
        _T.INT4_MM_INT4_TO_INT16,
    ),
    _LARGE_BLOCKS,
    segment=8192,
)
CHIPS: dict[str, ChipRules] = {
    "rk3562": _RK3562,
    "rk3566": _RK356X,
    "rk3568": _RK356X,
    "rk3576": _RK3576,
    "rk3588": _RK3588,
}
"""By the chip's name. The others' runtime has no matrix products."""

PER_GROUP_TYPES = tuple(
    kind
    for kind in MatmulType
    if operands(kind).b is not DType.FLOAT16
    and operands(kind).c in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
)
"""Groups are scaled before they are summed, so C can't be a sum of integers."""
PER_CHANNEL_TYPES = tuple(
    kind
    for kind in MatmulType
    if operands(kind).b is not DType.FLOAT16
    # The vendor's runtime refuses it for the first, and the second has no scales at all.
    and kind not in (_T.INT8_MM_INT8_TO_FLOAT32, _T.INT4_MM_INT4_TO_INT16)
)
