"""Functions of one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..refusal import Refusal, Unknown
from ..rounding import cut, to_halves
from .quantized import F16, F32, ONE, U8, check_same, limited_halves, reals_of, to_bytes, types
from .shader import Image, Shader
from .task import Array, ShaderTask

_F32 = np.float32
_Maker = Callable[[Shader, Image, Image], ShaderTask]
_SOFTPLUS = {0x40: 0x3FB8AA3B, 0x44: 0x3F317218}
"""The constants that only softplus takes both of: the binary logarithm of e, and its inverse."""


_SQUARE_ROOT = "eed8909c256a8ddf"
"""The program for float16 values; nothing but the code tells it from other functions."""

_SQUARE_ROOT_TO_BYTES = "baa3e85e47eeb2d4"
"""That for float16 values whose roots become bytes."""

_SQUARES, _ROOT_OF_SUMS, _HALF_BITS = "ffdcb590d77f2c1b", "05751cb8f2046d7c", 11
"""What is in front of sums of squares and behind: roots are cut to float16's significant bits."""

_FLOOR_OF_HALVES = "9a279b587dbc92cd"
"""That of the next whole number below, of float16."""

_EXPONENTIALS = {"3e84838794139bc1": (U8, F16), "bcb3aa8d040ab238": (F16, F16)}
"""Those of exponentials, and of what types they are."""

_SOFTPLUS_OF_HALVES = "caff36fdf5994439"
"""That of softplus of float16."""

_LARGEST_HALF = np.float16(65504)


def _roots(values: Array) -> Array:
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(values)
    result: Array = np.where(np.isnan(roots), -_F32(_LARGEST_HALF), roots)
    return result


_OF_BYTES: Mapping[str, Callable[[Array], Array]] = {
    "b93c47bb262e1d21": _roots,
    "5b5701c20052fa49": np.sin,
    "bfb36b91ec9f71df": np.cos,
    "5c61936e8447f003": np.floor,
    "481032bb01b783d5": np.ceil,
}
"""Functions of real values from bytes, by the program."""

_OF_REALS: Mapping[str, Callable[[Array], Array]] = {
    "b09aa7ad45b872cd": np.sin,
    "a63d6947aae452b9": np.cos,
}
"""Those of float16."""


def activation(shader: Shader) -> ShaderTask:
    """A function of each value; the layer's name is the same for all of them.

    Softplus of bytes is told by its constants, others by their programs.
    """
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    known = _KNOWN.get(shader.program)
    if known is not None and types(source, output) == known[:2]:
        return known[2](shader, source, output)
    is_real = types(source, output) == (F16, F16) and shader.program == _SOFTPLUS_OF_HALVES
    if types(source, output) != (U8, F16) and not is_real:
        raise Unknown(f"an activation of {source.dtype} to {output.dtype}")
    shader.expect(_SOFTPLUS)
    to_binary, to_natural = shader.real(0x40), shader.real(0x44)
    scale, constant = shader.real(0x48), shader.real(0x4C)

    def function(values: Array) -> Array:
        real = reals_of(values) * scale + constant
        grown = np.log2(_F32(1) + np.exp2(real * to_binary))
        result: Array = limited_halves(grown * to_natural)
        return result

    return ShaderTask((source,), output, function)


def rounding(shader: Shader) -> ShaderTask:
    """The next whole number below or above; the layer's name is the same for both."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    if types(source, output) == (F16, F16) and shader.program == _FLOOR_OF_HALVES:
        shader.expect({0xC0: ONE, 0xC4: 0, 0xC8: ONE, 0xCC: 0})
        return ShaderTask((source,), output, lambda values: _whole(np.floor, values))
    if types(source, output) != (U8, F16) or shader.program not in _OF_BYTES:
        raise Unknown(f"whole numbers of {source.dtype} as {output.dtype} in this form")
    return activation(shader)


def _whole(function: Callable[[Array], Array], values: Array) -> Array:
    """Whole numbers of float16; none is a negative zero."""
    result: Array = to_halves(function(reals_of(values))) + _NOTHING
    return result


def nearest_whole(shader: Shader) -> ShaderTask:
    """The nearest whole number; halves go to even ones."""
    source, output = shader.images(0x00, 0x20)
    if types(source, output) == (F16, F16):
        check_same(output, source)
        shader.expect({0x48: 0, 0x4C: ONE, 0xD0: 0, 0xD4: ONE, 0xD8: 0})
        return ShaderTask((source,), output, lambda values: _whole(np.rint, values))
    return _named(shader, np.rint)


def sign(shader: Shader) -> ShaderTask:
    """-1, 0 or 1."""
    return _named(shader, np.sign)


def _named(shader: Shader, function: Callable[[Array], Array]) -> ShaderTask:
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    if types(source, output) != (U8, F16):
        raise Unknown(f"a function of {source.dtype} as {output.dtype}")
    shader.expect({0xD4: ONE, 0xD8: 0})
    return _of_bytes(shader, source, output, (0x4C, 0xD0), function)


def _of_bytes(
    shader: Shader,
    source: Image,
    output: Image,
    registers: tuple[int, int],
    function: Callable[[Array], Array],
) -> ShaderTask:
    """A function of bytes that a scale and a constant make real; it gives no negative zero."""
    scale, constant = (shader.real(register) for register in registers)

    def values_of(values: Array) -> Array:
        result: Array = to_halves(function(reals_of(values) * scale + constant)) + _NOTHING
        return result

    return ShaderTask((source,), output, values_of)


_NOTHING = np.float16(0)


def _exponential(shader: Shader, source: Image, output: Image) -> ShaderTask:
    to_binary, scale, constant = shader.real(0x40), shader.real(0x44), shader.real(0x48)
    if shader.real(0x4C) != 1:
        raise Unknown("powers with a factor")

    def function(values: Array) -> Array:
        real = reals_of(values) * scale + constant
        powers = np.exp2((real * to_binary).astype(np.float64))
        result: Array = limited_halves(powers.astype(_F32))
        return result

    return ShaderTask((source,), output, function)


def _root_of_sums(values: Array) -> Array:
    if (values < 0).any():
        raise Refusal("what the root of a negative float32 is isn't known")
    return to_halves(cut(np.sqrt(values.astype(np.float64)), _HALF_BITS))


def _root_to_bytes(shader: Shader, source: Image, output: Image) -> ShaderTask:
    shader.expect({0xC0: ONE, 0xC4: 0})
    scale, zero = shader.real(0xC8), shader.real(0xCC)

    def function(values: Array) -> Array:
        if not (values >= 0).all():
            raise Refusal("which byte stands for the root of a negative float16 isn't known")
        return to_bytes(np.sqrt(values.astype(_F32)) * scale + zero)

    return ShaderTask((source,), output, function)


def _square_root(values: Array) -> Array:
    """Roots of float16; what has none is the least float16."""
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(reals_of(values))
    result: Array = np.where(np.isnan(roots), -_LARGEST_HALF, roots.astype(np.float16))
    return result


def _without_constants(function: Callable[[Array], Array]) -> _Maker:
    def maker(shader: Shader, source: Image, output: Image) -> ShaderTask:
        return ShaderTask((source,), output, function)

    return maker


def _with_scales(function: Callable[[Array], Array]) -> _Maker:
    def maker(shader: Shader, source: Image, output: Image) -> ShaderTask:
        shader.expect({0xC8: ONE, 0xCC: 0})
        if source.dtype == F16:
            shader.expect({0xC0: ONE, 0xC4: 0})
        return _of_bytes(shader, source, output, (0xC0, 0xC4), function)

    return maker


_KNOWN: Mapping[str, tuple[np.dtype[np.generic], np.dtype[np.generic], _Maker]] = {
    _ROOT_OF_SUMS: (F32, F16, _without_constants(_root_of_sums)),
    _SQUARES: (F16, F32, _without_constants(lambda values: np.square(values.astype(_F32)))),
    _SQUARE_ROOT: (F16, F16, _without_constants(_square_root)),
    _SQUARE_ROOT_TO_BYTES: (F16, U8, _root_to_bytes),
    **{program: (*kinds, _exponential) for program, kinds in _EXPONENTIALS.items()},
    **{program: (U8, F16, _with_scales(each)) for program, each in _OF_BYTES.items()},
    **{program: (F16, F16, _with_scales(each)) for program, each in _OF_REALS.items()},
}
"""Programs, the types of what they read and write, and who makes tasks of them."""
