"""Sums of products of lanes: tables of 512 bits that say which, and how they are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...refusal import Unknown
from ...rounding import (
    cut_to_float,
    cut_to_half,
    half_up_to_float,
    numbers_of_halves,
    to_halves,
    whole_sum,
)
from .instructions import SUMS_OF_32, Group, Instruction, LaneRounding
from .types import DTYPES, FLOATS, LANE_KINDS, Kind, name_of

Array = NDArray[Any]
TABLE_WORDS = 16
_LANE_BYTES = 16
_NONE, _PLUS, _MINUS, _AS_IT_IS = range(4)
_OF_FIRST, _OF_SECOND, _CONSTANT, _NONE_OF_THEM = range(4)
_OF_LAST = -1
"""The source behind a pair of registers, which count as the first and the second one."""

_OUTPUTS = {"dp16x1": 1, "dp8x2": 2, "dp4x4": 4, "dp2x8": 8, **SUMS_OF_32}
_BYTES = (Kind.S8, Kind.U8)
_CONSTANT_KINDS = (Kind.F16, Kind.S16, Kind.S8, Kind.U16, Kind.U8)


@dataclass(frozen=True, eq=False)
class _Term:
    """One of an output's products, of all outputs: which lanes of what, by which lanes or numbers.

    `sign` is 0 for outputs that don't have it.
    """

    sign: NDArray[np.int64]
    source: int
    kind: Kind
    lanes: NDArray[np.int64]
    factor: int
    """Which source the other factor comes from; `_CONSTANT`, `_NONE_OF_THEM`, or `_OF_LAST`."""
    factor_kind: Kind
    factor_lanes: NDArray[np.int64]
    constants: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Table:
    """What a table says of each product, as (outputs, terms), and of all."""

    signs: NDArray[np.int64]
    sources: NDArray[np.int64]
    lanes: NDArray[np.int64]
    factors: NDArray[np.int64]
    factor_lanes: NDArray[np.int64]
    constants: NDArray[np.uint16]
    constant_kind: Kind
    moved_kind: Kind
    kinds: tuple[Kind, ...]
    """The lanes' types, by source."""


@dataclass(frozen=True, eq=False)
class Products:
    """A table, resolved for one instruction: a function of registers' bytes, (items, 16) each."""

    terms: tuple[_Term, ...]
    outputs: int
    shift: int
    has_whole_constants: bool
    rounding: LaneRounding
    kind: Kind
    is_saturating: bool

    def values(self, sources: Sequence[NDArray[np.uint8]]) -> Array:
        """The outputs of `kind`, as (items, outputs)."""
        products: list[Array] = []
        added: list[Array] = []
        is_whole = True
        for term in self.terms:
            product, exact = _product(term, sources)
            is_whole = is_whole and exact
            (added if term.factor == _NONE_OF_THEM else products).append(product)
        if is_whole:
            return self._of_whole(sum([*products, *added]))  # type: ignore[arg-type]
        return self._of_reals(products, added)

    def _of_whole(self, total: NDArray[np.int64]) -> Array:
        if self.kind in FLOATS:
            return self._rounded_real(total.astype(np.float64) * 2.0**-self.shift)
        if self.shift:
            total = _shifted(total, self.shift, self.rounding)
        return _stored(total, self.kind, self.is_saturating)

    def _of_reals(self, products: list[Array], added: list[Array]) -> Array:
        real = np.stack(np.broadcast_arrays(*products), -1).astype(np.float64)
        if self.has_whole_constants and real.shape[-1] > 1:
            total: Array = whole_sum(real).astype(np.float64)
        else:
            total = real.sum(-1)
        total = total * 2.0**-self.shift
        if self.kind in FLOATS:
            return self._rounded_real(total + sum(added))
        whole = np.rint(total) if self.rounding is LaneRounding.NEAREST else np.trunc(total)
        # What is added is a whole number of the output's steps.
        whole = np.nan_to_num(whole, nan=0.0) + sum(added) * 2.0**-self.shift
        return _stored(np.clip(whole, -_LARGEST, _LARGEST), self.kind, self.is_saturating)

    def _rounded_real(self, real: NDArray[np.float64]) -> Array:
        rounded: Array = _TO_FLOATS[self.kind, self.rounding](real)
        return rounded


_LARGEST = 2.0**40

_TO_FLOATS: Mapping[tuple[Kind, LaneRounding], Callable[[NDArray[np.float64]], Array]] = {
    (Kind.F32, LaneRounding.CUT): cut_to_float,
    (Kind.F32, LaneRounding.HALF_UP): half_up_to_float,
    (Kind.F32, LaneRounding.NEAREST): lambda real: real.astype(np.float32),
    (Kind.F16, LaneRounding.CUT): lambda real: cut_to_half(real).astype(np.float16),
    (Kind.F16, LaneRounding.NEAREST): to_halves,
}
"""How real numbers become an output's, by its type and the instruction's rounding."""


def _product(term: _Term, sources: Sequence[NDArray[np.uint8]]) -> tuple[Array, bool]:
    """A term of all outputs, and whether it is a whole number."""
    values, exact = _lanes(sources[term.source], term.kind, term.lanes)
    if term.factor == _CONSTANT and term.factor_kind is Kind.F16:
        product, exact = values * term.constants, False
    elif term.factor == _CONSTANT:
        product = values * term.constants.astype(np.int64)
    elif term.factor == _NONE_OF_THEM:
        product = values
    else:
        other, other_exact = _lanes(sources[term.factor], term.factor_kind, term.factor_lanes)
        product, exact = values * other, exact and other_exact
    if (term.sign == 1).all():
        return product, exact
    # What an output doesn't have may be no number.
    return np.where(term.sign == 0, 0, product) * term.sign, exact


def _lanes(content: NDArray[np.uint8], kind: Kind, lanes: NDArray[np.int64]) -> tuple[Array, bool]:
    taken = content.view(DTYPES[kind])[:, lanes]
    if kind is Kind.F16:
        return numbers_of_halves(taken), False
    if kind is Kind.F32:
        return taken.astype(np.float64), False
    return taken.astype(np.int64), True


def _shifted(total: NDArray[np.int64], shift: int, rounding: LaneRounding) -> NDArray[np.int64]:
    """Fraction bits away: to the nearest, halves to even numbers, or downward."""
    whole = total >> shift
    if rounding is not LaneRounding.NEAREST:
        return whole
    rest, half = total & ((1 << shift) - 1), 1 << shift - 1
    is_up = (rest > half) | ((rest == half) & (whole & 1 == 1))
    result: NDArray[np.int64] = whole + is_up
    return result


def _stored(values: Array, kind: Kind, is_saturating: bool) -> Array:
    """Whole numbers as a type has them: limited to its range, or their lower bits."""
    dtype = DTYPES[kind]
    if is_saturating:
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        values = np.clip(values, limits.min, limits.max)
    result: Array = values.astype(np.int64).astype(dtype)
    return result


def products_of(instruction: Instruction, table: NDArray[np.uint32]) -> Products:
    """What an instruction sums by a table of sixteen words; raises `Unknown`."""
    control = int(table[_CONTROL])
    if control & ~0x771F:
        raise Unknown(f"products with {control:#x} behind their table")
    outputs = _OUTPUTS[instruction.name]
    count = instruction.last_lane - instruction.first_lane + 1
    if not 1 <= count <= outputs:
        raise Unknown(f"{count} of {outputs} sums of products")
    if (instruction.last_lane + 1) * DTYPES[instruction.kind].itemsize > _LANE_BYTES:
        raise Unknown(f"lane {instruction.last_lane} of {name_of(instruction.kind)}")
    form = _of_32 if instruction.name in SUMS_OF_32 else _of_16
    said = form(instruction, table, (outputs, count))
    terms: list[_Term] = []
    for place in range(said.signs.shape[1]):
        # Terms of one form are computed for all outputs at once.
        forms = np.stack([said.signs, said.sources, said.factors], -1)[:, place]
        for form in np.unique(forms[said.signs[:, place] != _NONE], axis=0):
            terms.append(_term(said, form.tolist(), (forms == form).all(1), place))
    if not terms:
        raise Unknown("sums of no products")
    rounding, shift = instruction.lane_rounding, control & 31
    if instruction.kind in FLOATS:
        is_known = (instruction.kind, rounding) in _TO_FLOATS
    else:
        is_known = rounding is not LaneRounding.HALF_UP or not shift
    if not is_known:
        raise Unknown(f"sums of {name_of(instruction.kind)} rounded as {rounding.name}")
    has_whole = all(
        term.factor == _CONSTANT and term.factor_kind not in FLOATS and term.kind in FLOATS
        for term in terms
    )
    return Products(
        tuple(terms), count, shift, has_whole, rounding, instruction.kind,
        instruction.is_saturating,
    )  # fmt: skip


_CONTROL = 7
"""The word with types and the shift."""


def _fields(words: NDArray[np.uint32], bits: int, counts: tuple[int, int]) -> NDArray[np.int64]:
    """Numbers of so many bits, which fill words; `counts` are all outputs, and those taken."""
    whole = sum(word << 32 * place for place, word in enumerate(words.tolist()))
    terms = 32 * words.size // bits
    found = [whole >> bits * term & (1 << bits) - 1 for term in range(terms)]
    return np.array(found).reshape(counts[0], -1)[: counts[1]]


def _of_16(instruction: Instruction, table: NDArray[np.uint32], counts: tuple[int, int]) -> _Table:
    factors = _fields(table[4:5], 2, counts)
    kinds: tuple[Kind, ...] = instruction.lane_kinds
    if instruction.sources[0].group is Group.PAIR:
        if factors.any():
            raise Unknown("products of a pair of registers by other than the source behind it")
        kinds, factors = (kinds[0], *kinds), np.full_like(factors, _OF_LAST)
    control = int(table[_CONTROL])
    return _Table(
        signs=_fields(table[0:1], 2, counts),
        sources=_fields(table[1:2], 2, counts),
        lanes=_fields(table[2:4], 4, counts),
        factors=factors,
        factor_lanes=_fields(table[5:7], 4, counts),
        constants=_fields(table[8:16], 16, counts).astype(np.uint16),
        constant_kind=LANE_KINDS[control >> 8 & 7],
        moved_kind=LANE_KINDS[control >> 12 & 7],
        kinds=kinds,
    )


def _of_32(instruction: Instruction, table: NDArray[np.uint32], counts: tuple[int, int]) -> _Table:
    """Tables for 32 products: of lanes of 8 bits, by constants or by lanes behind a pair."""
    signs = _fields(table[0:2], 2, counts)
    places = _fields(table[2:7], 5, counts)
    kinds: tuple[Kind, ...] = instruction.lane_kinds
    control = int(table[_CONTROL])
    constant_kind, moved_kind = LANE_KINDS[control >> 8 & 7], LANE_KINDS[control >> 12 & 7]
    none = np.zeros_like(places)
    if instruction.sources[0].group is Group.PAIR:
        if control or table[12:].any():
            raise Unknown("32 products of a pair of registers with constants")
        kinds, by = (kinds[0], *kinds), _OF_LAST
        factor_lanes, constants = _fields(table[8:12], 4, counts), none
    else:
        by, factor_lanes = _CONSTANT, none
        constants = _fields(table[8:16], 8, counts)
    if any(kind not in _BYTES for kind in kinds):
        raise Unknown(f"32 products of {' and '.join(map(name_of, instruction.lane_kinds))}")
    has_constants = by == _CONSTANT and (signs != _AS_IT_IS).any()
    if has_constants and constant_kind not in _BYTES:
        raise Unknown(f"32 products by constants of {name_of(constant_kind)}")
    if (signs == _AS_IT_IS).any() and moved_kind not in _BYTES:
        raise Unknown(f"32 lanes of {name_of(moved_kind)} added as they are")
    return _Table(
        signs=signs,
        sources=places // _LANE_BYTES,
        lanes=places % _LANE_BYTES,
        factors=np.full_like(places, by),
        factor_lanes=factor_lanes,
        constants=constants.astype(np.uint16),
        constant_kind=constant_kind,
        moved_kind=moved_kind,
        kinds=kinds,
    )


def _term(said: _Table, form: Sequence[int], is_here: NDArray[np.bool_], place: int) -> _Term:
    config, source, factor = form
    if source not in (_OF_FIRST, _OF_SECOND) or factor == _NONE_OF_THEM:
        raise Unknown("a product of sources that have no known meaning")
    constant_kind, moved_kind = said.constant_kind, said.moved_kind
    kind = said.kinds[source]
    factor_kind = said.kinds[factor] if factor != _CONSTANT else constant_kind
    if config == _AS_IT_IS:
        if moved_kind in FLOATS:
            raise Unknown(f"lanes of {name_of(moved_kind)} added as they are")
        kind, factor = moved_kind, _NONE_OF_THEM
    if factor == _CONSTANT and constant_kind not in _CONSTANT_KINDS:
        raise Unknown(f"products by constants of {name_of(constant_kind)}")
    taken, other = (
        np.where(is_here, lanes[:, place], 0) for lanes in (said.lanes, said.factor_lanes)
    )
    for name, own, number in (("", kind, taken), ("the other ", factor_kind, other)):
        is_used = not name or factor in (_OF_FIRST, _OF_SECOND, _OF_LAST)
        if is_used and (int(number.max()) + 1) * DTYPES[own].itemsize > _LANE_BYTES:
            raise Unknown(f"lane {int(number.max())} of {name}{name_of(own)}")
    constants = said.constants[:, place].copy()
    numbers = (
        constants.view(np.float16).astype(np.float64)
        if constant_kind is Kind.F16
        else constants.astype(DTYPES[constant_kind]).astype(np.float64)
    )
    sign = np.where(is_here, -1 if config == _MINUS else 1, 0).astype(np.int64)
    return _Term(
        sign, source, kind, taken, factor, factor_kind, other, np.where(is_here, numbers, 0)
    )
