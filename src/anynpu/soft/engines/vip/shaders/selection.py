"""Values moved, and converted: copies, gathered rows, slices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..refusal import Unknown
from .arithmetic import rescaled
from .quantized import F16, I16, I32, TRUTH, U8, check_same, types
from .shader import Shader
from .task import Array, ShaderTask, copy_of

_OF_BYTES, _OF_HALVES = "516e38afcab44831", "bfb4848355b534d8"
"""The programs that copy bytes, and float16."""


_CONVERTED: Mapping[str, tuple[np.dtype[np.generic], ...]] = {
    "27a99b2270f0da75": (F16, U8),
    "4f0903e542580b62": (U8, U8),
    "94c6834270227e0e": (TRUTH, U8),
}
"""Programs that multiply by a factor with some fraction bits, and what they read and write."""


def copy(shader: Shader) -> ShaderTask:
    """Whole numbers of 16 bits as float16; or bytes, or float16, as they are."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    if shader.program == _OF_BYTES and types(source, output) == (U8, U8):
        return copy_of(source, output)
    if shader.program == _OF_HALVES and types(source, output) == (F16, F16):
        return copy_of(source, output)
    if types(source, output) == _CONVERTED.get(shader.program):
        factor, constant, shift = shader.whole(0x40), shader.signed(0x44), shader.whole(0x6C) & 63
        if not 0 < shift < 32:
            raise Unknown(f"a copy of values shifted by {shift} bits")

        def converted(values: Array) -> Array:
            return rescaled(values, factor, constant, shift).astype(np.uint8)

        return ShaderTask((source,), output, converted)
    if types(source, output) not in ((I16, F16), (TRUTH, F16)):
        raise Unknown(f"a copy of {source.dtype} to {output.dtype}")
    shader.expect({0x40: 0x8000, 0x44: 0})

    def function(values: Array) -> Array:
        return values.astype(np.float16)

    return ShaderTask((source,), output, function)


_OF_PIXELS = "8af2dbb515ea2414"
"""The program that gathers pixels."""


def gather(shader: Shader) -> ShaderTask:
    """The rows, or pixels, that a list of numbers names."""
    source, indices, output = shader.images(0x00, 0x20, 0x40)
    planes, rows, pixels = source.shape
    count = indices.shape[2]
    axis = 2 if shader.program == _OF_PIXELS else 1
    # Planes may lie in one another's rows: those of each are gathered by themselves.
    groups = 1 if axis == 2 else rows // max(shader.whole(0x60), 1)
    expected = (planes, rows, count) if axis == 2 else (planes, groups * count, pixels)
    if indices.dtype != I32 or output.dtype != source.dtype:
        raise Unknown(f"rows of {source.dtype} gathered by {indices.dtype} to {output.dtype}")
    if indices.shape != (1, 1, count) or output.shape != expected:
        raise Unknown(f"{indices.shape} rows of {source.shape} to {output.shape}")
    if axis == 2:
        if source.dtype != U8:
            raise Unknown(f"pixels of {source.dtype} gathered")
        shader.expect({0x60: pixels})
    elif (shader.whole(0x60) * groups, shader.whole(0x64)) != (rows, count):
        raise Unknown(f"rows of {shader.whole(0x60)}, {shader.whole(0x64)} of them")
    size = source.shape[axis] // groups
    if indices.constant is None:
        raise Unknown("rows gathered by numbers that a network computes")
    numbers = indices.constant.reshape(-1)
    if numbers.min() < 0 or numbers.max() >= size:
        raise Unknown(f"rows {numbers.min()} to {numbers.max()} of {size}")

    def function(values: Array, chosen: Array) -> Array:
        if axis == 2:
            return values.take(chosen.reshape(-1), 2)
        split = values.reshape(planes * groups, size, pixels)
        return split.take(chosen.reshape(-1), 1).reshape(expected)

    return ShaderTask((source, indices), output, function)


_OF_ROWS_AND_PIXELS = "5dc70e49f4015707"
"""The program of slices that begin at some row and pixel."""

_PARTS = {"699a7888354b30df": F16, "edac46230c8b075c": U8}
"""The programs of a part of an image, and of which types they are."""

_REVERSED_ROWS = {"a68c71481ce66fdb": F16, "6bf61028843c1fea": U8}
"""Those of its rows the other way round."""


def _part(shader: Shader) -> ShaderTask:
    """Pixels, rows and planes from some on."""
    source, output = shader.images(0x00, 0x20)
    starts = shader.whole(0x48), shader.whole(0x44), shader.whole(0x40)
    dtype = _PARTS[shader.program]
    if types(source, output) != (dtype, dtype):
        raise Unknown(f"a slice of {source.dtype} to {output.dtype}")
    for first, count, size in zip(starts, output.shape, source.shape, strict=True):
        if first + count > size:
            raise Unknown(f"a slice of {source.shape} from {starts} on to {output.shape}")
    return copy_of(source, output, starts)


def _reversed_rows(shader: Shader) -> ShaderTask:
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    dtype = _REVERSED_ROWS[shader.program]
    if types(source, output) != (dtype, dtype):
        raise Unknown(f"rows of {source.dtype} turned round to {output.dtype}")
    shader.expect({0x40: source.shape[1] - 1})
    return ShaderTask((source,), output, lambda values: values[:, ::-1])


def slice_rows(shader: Shader) -> ShaderTask:
    """Rows and pixels of an image, from some on; a part of it; or its rows turned round."""
    if shader.program in _PARTS:
        return _part(shader)
    if shader.program in _REVERSED_ROWS:
        return _reversed_rows(shader)
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    left, first, count, width = shader.whole(0x40), shader.whole(0x44), *output.shape[1:]
    if any(shader.whole(register) for register in (0x48, 0x4C)):
        raise Unknown("a slice that isn't of whole planes")
    if source.dtype != output.dtype or output.shape[0] != planes:
        raise Unknown(f"a slice of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    is_row = (left, count, width) == (0, 1, pixels)
    if shader.program != _OF_ROWS_AND_PIXELS and not is_row:
        raise Unknown("a slice that isn't whole rows")
    if first + count > rows or left + width > pixels:
        raise Unknown(f"rows from {first} and pixels from {left} of {rows} x {pixels}")

    return copy_of(source, output, (0, first, left))


_ROWS_AS_PLANES, _REPEATED = "6d925cbbe261954d", "1d8d35025196652b"
"""Programs that make planes of rows, each of which they repeat, and that repeat whole images."""


def repetition(shader: Shader) -> ShaderTask:
    """Rows of one plane as planes of as many rows of the same bytes; or an image side by side."""
    source, counts, output = shader.images(0x00, 0x20, 0x40)
    planes, rows, pixels = source.shape
    programs = (_ROWS_AS_PLANES, _REPEATED)
    if shader.program not in programs or types(source, counts, output) != (U8, I32, U8):
        raise Unknown(f"{source.shape} {source.dtype} repeated in this form")
    if shader.program == _REPEATED:
        times = tuple(total // size for total, size in zip(output.shape, source.shape, strict=True))
        if output.shape != tuple(n * size for n, size in zip(times, source.shape, strict=True)):
            raise Unknown(f"{source.shape} repeated as {output.shape}")
        told = () if counts.constant is None else tuple(counts.constant.reshape(-1).tolist())
        if told != times[::-1]:
            raise Unknown(f"{source.shape} repeated {told} times as {output.shape}")
        return ShaderTask((source,), output, lambda values: np.tile(values, times))
    if planes != 1 or output.shape != (rows, output.shape[1], pixels):
        raise Unknown(f"{source.shape} repeated as {output.shape}")
    return ShaderTask(
        (source,),
        output,
        lambda values: np.broadcast_to(values.reshape(rows, 1, pixels), output.shape),
    )
