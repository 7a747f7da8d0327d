"""Strategies for tasks of any element, and memory that holds what is hard to compute with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.rounding import Ties
from anynpu.soft.engines.rknpu.tasks import (
    BlockWriter,
    Convolution,
    Dpu,
    Elementwise,
    Features,
    Image,
    InputConversion,
    LookupTable,
    OffsetPlace,
    OperandConversion,
    Operation,
    PhaseWriter,
    Stage,
    Writer,
)
from anynpu.soft.engines.rknpu.weights import OperandBlock, StoredOperand, WeightLayout, Weights

from .descriptions import OPERAND, SOURCE, TARGET, Scene, output

STORED, WEIGHTS = 3 << 16, 5 << 15
"""Where operands and weights lie that another task would compute."""

FLOATS = st.sampled_from([Element.FLOAT16, Element.FLOAT16, Element.BFLOAT16, Element.FLOAT32])
INTEGERS = st.sampled_from([Element.INT8, Element.INT16, Element.INT32])

_SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, -3e-6, 65504.0, -65504.0, 1.0]

_LEAST = {
    True: st.sampled_from([0.0, 0.0, -1.25, 0.07, None]),
    False: st.sampled_from([0.0, 0.0, -77.0, 3.0, None]),
}
"""What stages keep values above, of floats and of integers."""

rules = st.sampled_from([Ties.EVEN, Ties.EVEN, Ties.AWAY])
"""What kernels know of rounding."""

shapes = st.tuples(st.integers(1, 40), st.integers(1, 7), st.integers(1, 19))
"""Channels, height and width."""

contents = st.sampled_from(["noise", "normal", "small", "special"])


def fill(scene: Scene, element: Element, content: str, seed: int) -> None:
    """The whole memory as elements: noise (with many NaN), ordinary numbers, denormals, or some of
    the special values.
    """
    rng = np.random.default_rng(seed)
    if content == "noise" or not element.is_float:
        scene.bytes[...] = rng.integers(0, 256, scene.bytes.size, np.uint8)
        return
    values = rng.standard_normal(scene.bytes.size // element.size).astype(np.float32)
    if content == "small":
        values *= np.float32(2e-7)
    if content == "special":
        chosen = rng.random(values.size) < 1 / 32
        values[chosen] = rng.choice(_SPECIAL, chosen.sum())
    if element is Element.BFLOAT16:
        stored: NDArray[Any] = (values.view(np.uint32) >> 16).astype(np.uint16)
    else:
        with np.errstate(over="ignore"):
            stored = values.astype(element.dtype)
    scene.bytes[...] = stored.view(np.uint8)


@st.composite
def features_of(
    draw: st.DrawFn,
    shape: tuple[int, int, int],
    element: Element,
    place: int = SOURCE,
    atom: int = 16,
) -> Features:
    """Features with or without gaps, or with odd surfaces elsewhere."""
    channels, height, width = shape
    line = width * atom + draw(st.sampled_from([0, atom]))
    surface = height * line + draw(st.sampled_from([0, 64]))
    odd = Address(INTERNAL, place + (3 << 13)) if draw(st.booleans()) else None
    return Features(
        Address(INTERNAL, place), element, channels, height, width, line, surface, atom, odd
    )


@st.composite
def writers(draw: st.DrawFn, shape: tuple[int, int, int], atom: int) -> Writer:
    """Channel blocks in groups of surfaces, broken into other rows, or pixels that lie apart."""
    _, height, width = shape
    place = Address(INTERNAL, TARGET)
    padding = draw(st.sampled_from([0, 0xFBFF, 0x1234]))
    if draw(st.booleans()):
        pixel = atom * draw(st.integers(1, 2))
        line = width * pixel + draw(st.sampled_from([0, 32]))
        return PhaseWriter(place, line, pixel, height * line, atom, padding)
    rows, columns = draw(st.sampled_from([(height, width), (width, height), (1, height * width)]))
    line = columns * atom + draw(st.sampled_from([0, 16]))
    surface = rows * line
    group = draw(st.sampled_from([1, 2, 99]))
    return BlockWriter(place, rows, columns, line, surface, group, group * surface, atom, padding)


def _numbers(is_float: bool, channels: int, seed: int, size: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    if is_float:
        return (rng.standard_normal(channels) * size).astype(np.float32)[:, None, None]
    return rng.integers(-size, size, channels).astype(np.int64)[:, None, None]


@st.composite
def operands(draw: st.DrawFn, is_float: bool, channels: int, part: str, size: int) -> Any:
    """Nothing, a number, one a channel, or one a channel in memory."""
    kind = draw(st.sampled_from(["none", "number", "channels", "memory"]))
    seed = draw(st.integers(0, 1 << 16))
    if kind == "none":
        return None
    if kind == "number":
        number = _numbers(is_float, 1, seed, size).item()
        return number if is_float else int(number)
    if kind == "channels":
        return _numbers(is_float, channels, seed, size)
    use = draw(st.sampled_from([{"add": 1, "multiply": 4}[part], 5, 7]))
    block = OperandBlock(use, channels, is_float, draw(st.sampled_from([8, 16])))
    return StoredOperand(Address(INTERNAL, STORED), block, part)


@st.composite
def stages(draw: st.DrawFn, is_float: bool, channels: int, adds_first: bool) -> Stage:
    multiply = draw(operands(is_float, channels, "multiply", 2 if is_float else 900))
    shifts = [0, 0] if is_float else [draw(st.integers(0, 14)) for _ in range(2)]
    is_limited = draw(st.booleans())
    limits = st.sampled_from([None, 6.0, 0.1] if is_float else [None, 300])
    return Stage(
        add=draw(operands(is_float, channels, "add", 1 if is_float else 5000)),
        subtracts=draw(st.booleans()),
        multiply=multiply,
        adds_first=adds_first,
        multiply_negatives=multiply is not None and draw(st.booleans()),
        shift_positive=shifts[0],
        shift_negative=draw(st.sampled_from(shifts)),
        lower=draw(_LEAST[is_float]) if is_limited else None,
        upper=draw(limits) if is_limited else None,
    )


def table(seed: int) -> LookupTable:
    """Entries at random for values from -512 to 1023."""
    entries = np.random.default_rng(seed).integers(-3000, 3000, (2, 513)).astype(np.float64)
    return LookupTable(entries[0], entries[1], -512, 0, 1024, (0, 1), (5, -3), (2, 1))


@st.composite
def elementwise_stages(
    draw: st.DrawFn, is_float: bool, shape: tuple[int, int, int], source: Features | None
) -> Elementwise:
    """`source` is where an operand may lie as well."""
    known = list(Operation) if is_float else [
        Operation.ADD, Operation.SUBTRACT, Operation.MAX, Operation.MIN, Operation.MULTIPLY
    ]  # fmt: skip
    operation = draw(st.sampled_from([None, *known]))
    # A sum's number, or a maximum's, may have more digits than a float.
    many = [] if is_float or operation is Operation.MULTIPLY else [(1 << 24) + 1, -123456789]
    operand: float | Features | None = draw(st.sampled_from([None, 3.0 if is_float else 3, *many]))
    if operation and draw(st.booleans()):
        channels, height, width = shape
        own = draw(
            st.sampled_from([shape, (channels, 1, 1), (1, height, width), (1, 1, width), (1, 1, 1)])
        )
        element = draw(FLOATS if is_float else INTEGERS)
        operand = draw(features_of(own, element, OPERAND))
        if source and source.element is element and draw(st.booleans()):
            operand = source
    conversion = None
    if isinstance(operand, Features) and not is_float and draw(st.booleans()):
        factors = draw(st.integers(-99, 99)), draw(st.integers(-99, 99))
        conversion = OperandConversion(*factors, 4, draw(rules))
    is_limited = draw(st.booleans())
    return Elementwise(
        table=table(draw(st.integers(0, 99))) if draw(st.booleans()) else None,
        operation=operation,
        operand=operand,
        conversion=conversion,
        product_shift=6 if operation is Operation.MULTIPLY and not is_float else 0,
        lower=draw(_LEAST[is_float]) if is_limited else None,
        upper=draw(st.sampled_from([None, 5 if not is_float else 2.5])) if is_limited else None,
    )


@st.composite
def dpus(
    draw: st.DrawFn,
    is_float: bool,
    shape: tuple[int, int, int],
    element: Element | None = None,
    source: Features | None = None,
) -> Dpu:
    """Stages for features of a shape, to an output of any element or the one named."""
    to = element or draw(FLOATS | INTEGERS if is_float else INTEGERS | st.just(Element.FLOAT16))
    out = output(
        to,
        scale=draw(st.sampled_from([1, 19000, -3])),
        shift=draw(st.integers(0, 16)),
        offset=draw(st.integers(-130, 130)),
        factor=draw(st.sampled_from([1.0, 0.37, 1e-5, 300.0])),
        addend=draw(st.sampled_from([0.0, 0.0, 3.0, 2.0**-15])),
        ties=draw(rules),
    )
    channels = shape[0]
    return Dpu(
        is_float=is_float,
        bs=draw(st.none() | stages(is_float, channels, True)),
        bn=draw(st.none() | stages(is_float, channels, draw(st.booleans()))),
        elementwise=draw(st.none() | elementwise_stages(is_float, shape, source)),
        reduction=None,
        output=out,
    )


@st.composite
def weights(
    draw: st.DrawFn, element: Element, shape: tuple[int, int, int, int], content: str, seed: int
) -> Weights:
    """Kernels (K, C, KH, KW), K = 1 if depthwise, in memory or constant, in groups of any size."""
    kernels, channels, height, width = shape
    is_depthwise = kernels == 1 and draw(st.booleans())
    groups = draw(st.sampled_from([(16, 32), (8, 8), (5, 24), (32, 3)]))
    packed = -(-width * channels * element.size // 16) * 16
    row_bytes = 0 if is_depthwise else draw(st.sampled_from([0, 0, packed]))
    layout = WeightLayout(
        element, kernels, channels, height, width, 1 if is_depthwise else groups[0], groups[1],
        is_depthwise, row_bytes=row_bytes,
    )  # fmt: skip
    place = Address(INTERNAL, WEIGHTS)
    if draw(st.booleans()):
        return Weights(place, layout, None)
    scene = Scene()
    fill(scene, element, content, seed + 1)
    return Weights(place, layout, scene.bytes[: layout.bytes].copy())


@st.composite
def convolutions(draw: st.DrawFn, is_float: bool, content: str, seed: int) -> Convolution:
    """Dense and depthwise ones with all that a description may have, and kernels know."""
    element = draw(FLOATS) if is_float else Element.INT8
    size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    channels, height, width = (draw(st.integers(1, most)) for most in (40, 7, 9))
    source: Features | Image
    if draw(st.integers(0, 3)):
        atom = 8 * draw(st.integers(1, 2))
        source = draw(features_of((channels, height, width), element, atom=atom))
        # Only operands, and features that nothing is multiplied with, have two places.
        source = replace(source, odd=None)
    else:
        channels = draw(st.integers(1, 4))
        line = width * channels * element.size + 8
        source = Image(Address(INTERNAL, SOURCE), element, channels, height, width, line)
    kernels = draw(st.sampled_from([1, 1, 7, 16, 33]))
    own = draw(
        weights(element, (kernels, channels + draw(st.integers(0, 8)), *size), content, seed)
    )
    if own.layout.is_depthwise and isinstance(source, Image):
        layout = WeightLayout(element, 1, own.layout.channels, *size, 16, 32, False)
        own = Weights(own.address, layout, own.data)
    offset: Any = None
    if not is_float and draw(st.booleans()):
        count = channels if own.layout.is_depthwise else kernels
        offset = draw(st.sampled_from([-7, _numbers(False, count, seed, 99)]))
    how: Any = None
    if not (is_float or own.layout.is_depthwise) and draw(st.booleans()):
        how = draw(conversions())
    strides = st.integers(0, 3)
    finite = [0.0, 1.5, 0.1] if is_float else [0.0, -7.0, 127.0]
    return Convolution(
        source=source,
        valid_channels=draw(st.sampled_from([channels, max(1, channels - 2)])),
        conversion=how,
        weights=own,
        inserted=draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (2, 1)])),
        padding=(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        padding_value=draw(st.sampled_from([*finite, *([-np.inf] if is_float else [])])),
        stride=(draw(strides), draw(strides)),
        dilation=(draw(st.integers(1, 6)), draw(st.integers(1, 6))),
        weight_offset=offset,
        channels=channels if own.layout.is_depthwise else kernels,
        height=draw(st.integers(1, 8)),
        width=draw(st.integers(1, 9)),
        truncate=0 if is_float else draw(st.sampled_from([0, 0, 1, 7])),
        truncate_ties=draw(st.sampled_from([Ties.EVEN, Ties.UP])),
    )


@st.composite
def conversions(draw: st.DrawFn) -> Any:
    def four(low: int, high: int) -> Any:
        return tuple(draw(st.integers(low, high)) for _ in range(4))

    return InputConversion(
        draw(st.sampled_from(OffsetPlace)), four(-200, 200), four(-99, 99), four(0, 7),
        draw(st.booleans()), draw(st.sampled_from(Ties)),
    )  # fmt: skip
