"""One matrix product on a chip: how its matrices lie, and whether the chip can do it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import OptionError
from ..matmul_layouts import BlockedB
from ..soc import Family, Soc
from ..tensor import DType
from .abi import MatmulInfo, MatmulLayout, MatmulQuantization, MatmulType
from .matmul_rules import (
    CHIPS,
    LARGEST_SIZE,
    PER_CHANNEL_TYPES,
    PER_GROUP_TYPES,
    Blocks,
    ChipRules,
    Operands,
    operands,
)

_Q = MatmulQuantization
_PER_CHANNEL = frozenset({_Q.PER_CHANNEL_SYM, _Q.PER_CHANNEL_ASYM})
_PER_GROUP = frozenset({_Q.PER_GROUP_SYM, _Q.PER_GROUP_ASYM})
_SYMMETRIC = frozenset({_Q.PER_LAYER_SYM, _Q.PER_CHANNEL_SYM, _Q.PER_GROUP_SYM})


@dataclass(frozen=True)
class Product:
    """One matrix product on a chip: what `rknn_matmul_info` says, and what follows from it."""

    soc: Soc
    kind: MatmulType
    m: int
    k: int
    n: int
    b_layout: MatmulLayout = MatmulLayout.NORM
    ac_layout: MatmulLayout = MatmulLayout.NORM
    b_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM
    ac_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM
    group_size: int = 0

    def with_group_size(self, group_size: int) -> Product:
        """The same product with groups of `group_size` rows of B."""
        return replace(self, group_size=group_size)

    def padded(self, m: int) -> Product:
        """The same product for `m` rows of A, with K and N rounded up to the chip's blocks."""
        unit = self.blocks
        k, n = -(-self.k // unit.k) * unit.k, -(-self.n // unit.n) * unit.n
        return replace(self, m=m, k=k, n=n)

    @cached_property
    def operands(self) -> Operands:
        """The element types."""
        return operands(self.kind)

    @property
    def blocks(self) -> Blocks:
        """The chip's blocks; A's element type decides, also where B has a narrower one.

        Raises `OptionError` where the chip has no products of that type.
        """
        try:
            return CHIPS[self.soc.name].blocks[self.operands.a]
        except KeyError:
            raise OptionError(self.problem() or "") from None

    @property
    def b_blocks(self) -> BlockedB | None:
        """B's native layout, None where B lies otherwise."""
        return self.native_b if self.b_layout is MatmulLayout.NATIVE else None

    @property
    def native_b(self) -> BlockedB:
        """The chip's native layout of a B of this type."""
        return BlockedB(self.blocks.n, self.blocks.k, CHIPS[self.soc.name].segment)

    @property
    def c_block(self) -> int:
        """C's columns in a block of its native layout."""
        return 8 if self.operands.c is DType.INT16 else 4

    @property
    def is_per_channel(self) -> bool:
        """Whether B has a scale for each of its columns."""
        return self.b_quantization in _PER_CHANNEL

    @property
    def is_per_group(self) -> bool:
        """Whether B has a scale for each group of rows of each of its columns."""
        return self.b_quantization in _PER_GROUP

    @property
    def is_symmetric(self) -> bool:
        """Whether B's zero points are all 0."""
        return self.b_quantization in _SYMMETRIC

    @property
    def b_scales(self) -> int:
        """How many scales B has: in the order (K / group size, N) where they are per group."""
        if self.is_per_group:
            return self.k // self.group_size * self.n
        return self.n if self.is_per_channel else 1

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The dimensions of A, B and C as their attributes give them."""
        a: tuple[int, ...] = (self.m, self.k)
        c: tuple[int, ...] = (self.m, self.n)
        if self.ac_layout is MatmulLayout.NATIVE:
            a = (-(-self.k // self.blocks.a), self.m, self.blocks.a)
            c = (-(-self.n // self.c_block), self.m, self.c_block)
        b: tuple[int, ...] = (self.k, self.n)
        if self.b_layout is MatmulLayout.NATIVE:
            b = self.native_b.shape(self.k, self.n)
        elif self.b_layout is MatmulLayout.TP_NORM:
            b = (self.n, self.k)
        return {"A": a, "B": b, "C": c}

    @cached_property
    def dtypes(self) -> dict[str, DType]:
        """The element types of A, B and C by name."""
        return {"A": self.operands.a, "B": self.operands.b, "C": self.operands.c}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The bytes of A, B and C."""
        dtypes = self.dtypes
        return {name: _bytes(dtypes[name], shape) for name, shape in self.shapes.items()}

    def __str__(self) -> str:
        layouts = f"B {self.b_layout.name}, A and C {self.ac_layout.name}"
        shape = f"M={self.m} K={self.k} N={self.n}"
        return (
            f"{self.kind.name} {shape} ({layouts}, {self.b_quantization.name}) on {self.soc.name}"
        )

    def info(self) -> MatmulInfo:
        """It as the C structure."""
        return MatmulInfo(
            M=self.m,
            K=self.k,
            N=self.n,
            type=self.kind,
            B_layout=self.b_layout,
            B_quant_type=self.b_quantization,
            AC_layout=self.ac_layout,
            AC_quant_type=self.ac_quantization,
            group_size=self.group_size,
        )

    def problem(self, *, keeps_guide: bool = False) -> str | None:
        """Why the chip can't do it, in words that name the limit; None where it can.

        With `keeps_guide` a limit of the guide counts on chips that run more, too.
        """
        return next(self._problems(keeps_guide=keeps_guide), None)

    def _problems(self, *, keeps_guide: bool) -> Iterator[str]:
        rules = CHIPS.get(self.soc.name)
        if self.soc.family is Family.RV1106 or rules is None:
            yield f"{self.soc.name} has no matrix products"
            return
        if self.kind not in rules.types:
            names = ", ".join(sorted(kind.symbol for kind in rules.types))
            yield (
                f"unsupported matmul dtype : {self.kind.symbol} this platform; "
                f"{self.soc.name} has {names}"
            )
            return
        yield from self._problems_of_layouts(rules)
        yield from self._problems_of_size(rules, keeps_guide=keeps_guide)
        yield from self._problems_of_quantization()

    def _problems_of_layouts(self, rules: ChipRules) -> Iterator[str]:
        if self.b_layout is MatmulLayout.TP_NORM and not rules.has_transposed:
            yield f"B_layout {self.b_layout.symbol} is not supported on {self.soc.name}"
        if self.ac_layout is MatmulLayout.TP_NORM:
            yield f"AC_layout {self.ac_layout.symbol} is not supported, only NORM and NATIVE"

    def _problems_of_size(self, rules: ChipRules, *, keeps_guide: bool) -> Iterator[str]:
        where = f"of {self.operands.a.name} on {self.soc.name}"
        for name, value, unit in (("K", self.k, self.blocks.k), ("N", self.n, self.blocks.n)):
            if value < 1 or value % unit:
                yield f"{name}({value}) {where} must be a positive multiple of {unit}"
        if self.m < 1:
            yield f"M({self.m}) must be positive"
        if rules.largest_k and self.k > rules.largest_k:
            yield f"K({self.k}) {where} must be <= {rules.largest_k}"
        if self.exceeds_guide and (rules.is_limit_of_n_kept or keeps_guide):
            yield f"N({self.n}) {where} must be <= {self.blocks.largest_n}"
        for name, size in self.sizes.items():
            if size > LARGEST_SIZE:
                yield f"matrix {name} takes {size} bytes, more than {LARGEST_SIZE}"

    @property
    def exceeds_guide(self) -> bool:
        """Whether there are more columns than the user guide's table allows."""
        return self.n > self.blocks.largest_n

    def _problems_of_quantization(self) -> Iterator[str]:
        if self.ac_quantization > MatmulQuantization.PER_LAYER_ASYM:
            yield f"AC_quant_type {self.ac_quantization.symbol} is not supported, only PER_LAYER"
        if self.is_per_channel and self.kind not in PER_CHANNEL_TYPES:
            yield _only("B_quant_type", self.b_quantization, PER_CHANNEL_TYPES)
        if not self.is_per_group:
            return
        if self.kind not in PER_GROUP_TYPES:
            yield _only("B_quant_type", self.b_quantization, PER_GROUP_TYPES)
        if self.group_size < 1 or self.k % self.group_size:
            yield f"group_size({self.group_size}) must be positive and divide K({self.k})"


def _only(field: str, value: MatmulQuantization, kinds: tuple[MatmulType, ...]) -> str:
    names = " and ".join(kind.symbol for kind in kinds)
    return f"{field} = {value.symbol}, only supported matmul dtype : {names}"


def _bytes(dtype: DType, shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return dtype.size_of(count)
