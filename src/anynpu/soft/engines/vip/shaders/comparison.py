"""Comparisons of two tensors, and what is chosen by their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ..refusal import Unknown
from .arithmetic import rescaled
from .quantized import F16, TRUTH, U8, check_broadcast, check_same, reals_of, types
from .shader import Shader
from .task import Array, ShaderTask

_COMPARED: Mapping[str, tuple[np.dtype[np.generic], ...]] = {
    "11aa2cf73be96897": (U8, U8),
    "1f05d07743abac61": (U8, F16),
    "77923156565bd66f": (F16, U8),
    "5df093ac7f84735f": (F16, F16),
}
"""Types of operands, by the program but for the comparison."""

_ASKED: Mapping[int, Callable[[Array, Array], Array]] = {
    1: np.greater,
    2: np.less,
    3: np.greater_equal,
    4: np.less_equal,
    5: np.equal,
    6: np.not_equal,
}
"""What a comparing instruction asks; all of a program ask the same."""


def comparison(shader: Shader) -> ShaderTask:
    """Real values compared, each by its own scale and constant, to truth values."""
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    program, conditions = shader.compared
    asked = [_ASKED[condition] for condition in conditions if condition in _ASKED]
    if kinds != (*_COMPARED.get(program, ()), TRUTH) or len(conditions) != 1 or not asked:
        raise Unknown(f"{kinds[0]} and {kinds[1]} compared, to {kinds[2]}, in this form")
    scale_a, scale_b = shader.real(0xE0), shader.real(0xE8)
    constant_a, constant_b = shader.real(0xE4), shader.real(0xEC)

    def function(x: Array, y: Array) -> Array:
        left = reals_of(x) * scale_a + constant_a
        right = reals_of(y) * scale_b + constant_b
        return asked[0](left, right).astype(TRUTH)

    return ShaderTask((a, b), output, function)


class _Choice(NamedTuple):
    """The operands' types, and the registers that have their multipliers and shifts."""

    kinds: tuple[np.dtype[np.generic], np.dtype[np.generic]]
    multipliers: tuple[int, int]
    shifts: tuple[int, int]


_CHOICES: Mapping[str, _Choice] = {
    "33c287acfd0b4c52": _Choice((U8, U8), (0x80, 0x90), (0xBC, 0xFC)),
    "a0576b866d25a404": _Choice((U8, F16), (0x80, 0x90), (0xBC, 0xFC)),
    "2c4d676c1a1dde7b": _Choice((F16, F16), (0x80, 0x80), (0xAC, 0xAC)),
}
"""By the program."""


def _cut(values: Array | np.uint8, factor: int, constant: int, shift: int) -> Array:
    """Bytes in steps of the output, cut, not rounded; of what is no byte the lower eight bits."""
    whole = np.asarray(values).astype(np.int64) * factor + constant
    result: Array = whole >> shift
    return result


def choice(shader: Shader) -> ShaderTask:
    """The first of two where a truth value is true, else the second; in steps of the output."""
    chosen, a, b, output = shader.images(0x00, 0x20, 0x40, 0x60)
    check_broadcast(output, chosen, a, b)
    form = _CHOICES.get(shader.program)
    if form is None or types(chosen, a, b, output) != (TRUTH, *form.kinds, U8):
        raise Unknown(f"a choice of {a.dtype} and {b.dtype} to {output.dtype} in this form")
    factors = [
        (shader.whole(register), shader.signed(register + 4), shader.whole(place) & 63)
        for register, place in zip(form.multipliers, form.shifts, strict=True)
    ]
    if not all(0 < shift < 32 for _, _, shift in factors):
        raise Unknown(f"a choice of values shifted by {factors[0][2]} and {factors[1][2]} bits")

    def function(truth: Array, x: Array, y: Array) -> Array:
        first, second = (
            (_cut if kind == U8 else rescaled)(values, *factor)
            for kind, values, factor in zip(form.kinds, (x, y), factors, strict=True)
        )
        result: Array = np.where(truth, first, second).astype(np.int64).astype(np.uint8)
        return result

    return ShaderTask((chosen, a, b), output, function)


_LOGIC: Mapping[str, Callable[..., Array]] = {
    "logical_not": np.logical_not,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}


def logic(shader: Shader) -> ShaderTask:
    """Truth values of one or two truth values."""
    name = next(name for name in _LOGIC if f".{name}_" in shader.name)
    is_single = name == "logical_not"
    *operands, output = shader.images(*((0x00, 0x20) if is_single else (0x00, 0x20, 0x40)))
    check_same(output, *operands)
    if set(types(*operands, output)) != {TRUTH}:
        raise Unknown(f"{name} of {operands[0].dtype}")
    function = _LOGIC[name]
    return ShaderTask(tuple(operands), output, lambda *values: function(*values).astype(TRUTH))
