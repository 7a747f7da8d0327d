"""The tensor processor's commands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....formats.nbg.model import Source
from ..coefficients.stream import HEADER_SIZE, Header, decode
from ..commands.tp import CIRCLE_ENDS, POINTERS, TpCommand
from ..memory import Circle, Scattered, Window, wrapped
from ..numbers import table_values
from ..operation import V853, OperationContext
from ..places import Places
from ..planes import Planes
from ..refusal import Unknown
from ..rounding import from_bfloat16
from ..tasks import FullyConnected, HalfFullyConnected, Move, Normalization, Table, Task
from .loops import Loops, Tiles, places

UINT8, FLOAT16, INT8, INT16, BFLOAT16 = 0, 1, 2, 4, 6
_ITEMS = {UINT8: 1, FLOAT16: 2, INT8: 1, INT16: 2}
_FULLY_CONNECTED = 3
_MIRROR = 3
_SLIDING, _BY_ITS_SIZE = 1, 3
_OVERLAPPING = 3
"""Rows and pixels of windows that were seen to lie two apart."""
_TABLE_BYTES = 4104
_SIZE_BITS = 14
_ALIGNMENT = 64
_LARGEST_BYTE = 255
_MOST_VALUES = 1 << 26


def decode_tp(context: OperationContext) -> Task:
    """A command of the tensor processor; raises `Unknown` for what isn't known of it."""
    command = TpCommand(context.words)
    for word in range(31, len(context.words)):
        if context.words[word]:
            raise Unknown(f"word {word} of the command is {context.words[word]:#010x}")
    types = {command.INPUT_TYPE, command.OUTPUT_TYPE}
    is_fully_connected = command.SEQUENCE == _FULLY_CONNECTED
    if is_fully_connected and types == {BFLOAT16}:
        return _fully_connected(context, command)
    if is_fully_connected and (command.INPUT_TYPE, command.OUTPUT_TYPE) == (UINT8, INT16):
        return _fully_connected(context, command)
    if not types <= _ITEMS.keys() or (INT16 in types and not types <= {INT16, FLOAT16}):
        raise Unknown(f"values of type {command.INPUT_TYPE} to {command.OUTPUT_TYPE}")
    if INT16 in types and (command.INPUT_ZERO_POINT or command.OUTPUT_ZERO_POINT):
        raise Unknown("int16 values with a zero point")
    if command.INPUT_SHIFT and INT16 not in types:
        raise Unknown(f"values of {types} shifted by {command.INPUT_SHIFT} bits")
    if is_fully_connected:
        return _fully_connected(context, command)
    return _move(context, command)


def _scale(command: TpCommand) -> float:
    shift = command.SHIFT if command.SHIFT < 64 else command.SHIFT - 128
    return (1 + command.MULTIPLIER / 32768.0) * 2.0**-shift


def _input_shift(command: TpCommand) -> int:
    """Five bits of two's complement: numbers of sixteen bits after the point get large ones."""
    shift = command.INPUT_SHIFT
    return shift - 32 if shift & 16 else shift


def _move(context: OperationContext, command: TpCommand) -> Move:
    if command.RELU:
        raise Unknown("a copy that cuts negative values off")
    if command.POOLING in (INT16, BFLOAT16):
        raise Unknown("a maximum in a form that isn't known")
    item = _ITEMS[command.INPUT_TYPE]
    address = context.address(POINTERS["input"])
    source = Planes(
        space=address.space,
        offset=address.offset,
        circle=context.circle(CIRCLE_ENDS["input"], command.INPUT_CIRCLE, address.space),
        channels=command.INPUT_DEPTH,
        height=command.INPUT_HEIGHT,
        width=command.INPUT_WIDTH,
        row=command.ROW_STRIDE * item,
        plane=command.SLICE_STRIDE * item,
        item=item,
    )
    if 0 in (source.channels, source.height, source.width):
        raise Unknown("an image without a pixel")
    source.check(context.layout)
    left, top, right, bottom = window = _window(command)
    if command.BORDER_MODE == _MIRROR:
        _check_mirror(window, source)
    height, width = bottom - top + 1, right - left + 1
    if height < 1 or width < 1:
        raise Unknown(f"a window from {left}, {top} to {right}, {bottom}")
    pooling, pooling_steps = None, (1, 1)
    normalization = _normalization(command, (height, width))
    if normalization is not None:
        height -= normalization.height - 1
        width -= normalization.width - 1
    if command.POOLING:
        pooling = command.POOLING_HEIGHT, command.POOLING_WIDTH
        pooling_steps = _pooling_steps(command)
        height = (height - pooling[0]) // pooling_steps[0] + 1
        width = (width - pooling[1]) // pooling_steps[1] + 1
        if height < 1 or width < 1:
            raise Unknown("a maximum over windows that are larger than the image")
    tiles = _tiles(command, height, width)
    if height * width * source.channels > _MOST_VALUES:
        raise Unknown(f"{source.channels} planes of {height} x {width} values")
    planes = source.channels + command.PLANES_BEFORE + command.PLANES_AFTER
    if planes > source.channels and (command.BORDER_MODE or command.POOLING):
        raise Unknown("planes around an image in this form")
    sizes = _block_sizes(tiles, width)
    order = context.shared.places.get((tiles, sizes))
    if order is None:
        order = context.shared.places[tiles, sizes] = Places.of(tiles.order(), *sizes)
    shift_or_factor = command.SHIFT or command.MULTIPLIER
    is_float = command.OUTPUT_TYPE == FLOAT16
    return Move(
        source=source,
        is_wide=INT16 in (command.INPUT_TYPE, command.OUTPUT_TYPE),
        input_scale=2.0 ** -_input_shift(command),
        input_is_float=command.INPUT_TYPE == FLOAT16,
        output_is_float=is_float,
        input_flips=command.INPUT_TYPE == INT8,
        output_flips=command.OUTPUT_TYPE == INT8,
        window=window,
        border=None if command.BORDER_MODE else _border(command),
        mirrors=command.BORDER_MODE == _MIRROR,
        pooling=pooling,
        pooling_steps=pooling_steps,
        input_zero_point=command.INPUT_ZERO_POINT,
        output_zero_point=command.OUTPUT_ZERO_POINT,
        scale=None if is_float and not shift_or_factor else _scale(command),
        table=_table(context, command) if command.TABLE else None,
        normalization=normalization,
        order=order,
        target=_target(context, command, planes, tiles, sizes | {height * width}),
        planes_before=command.PLANES_BEFORE,
        planes_after=command.PLANES_AFTER,
    )


def _normalization(command: TpCommand, seen: tuple[int, int]) -> Normalization | None:
    """What a table makes of each value's neighbours' squares; `seen` is the window."""
    kinds = command.SQUARE, command.MULTIPLY
    if not any(kinds):
        if command.SQUARE_SHIFT:
            raise Unknown(f"values shifted by {command.SQUARE_SHIFT} bits, and no squares")
        return None
    sizes = command.POOLING_HEIGHT, command.POOLING_WIDTH
    is_bytes = {command.INPUT_TYPE} == {UINT8} and command.OUTPUT_TYPE in (UINT8, FLOAT16)
    is_plain = all(kinds) and command.TABLE and not (command.POOLING or command.BORDER_MODE)
    others = command.BORDER_CONSTANT, command.PLANES_BEFORE, command.PLANES_AFTER
    if not is_plain or not is_bytes or any(others):
        raise Unknown("squares of values in this form")
    if not all(size % 2 for size in sizes) or sizes[0] > seen[0] or sizes[1] > seen[1]:
        raise Unknown(f"squares of {sizes} values of {seen}")
    return Normalization(*sizes, 2.0**-command.SQUARE_SHIFT)


def _pooling_steps(command: TpCommand) -> tuple[int, int]:
    """Rows and pixels from one window of a maximum to the next."""
    doubled = command.POOLING_Y_STRIDE, command.POOLING_X_STRIDE
    if command.POOLING == _SLIDING:
        if any(doubled):
            raise Unknown("a maximum that slides by more than a pixel")
        return 1, 1
    sizes = command.POOLING_HEIGHT, command.POOLING_WIDTH
    if doubled == (0, 0):
        return sizes
    if doubled != (1, 1) or sizes != (_OVERLAPPING, _OVERLAPPING):
        raise Unknown(f"a maximum over {sizes} pixels, with steps {doubled}")
    return 2, 2


def _check_mirror(window: tuple[int, int, int, int], source: Planes) -> None:
    """Raise `Unknown` for a window whose mirrored pixels lie beyond the image themselves."""
    left, top, right, bottom = window
    if min(left, top) < 0 or max(right - source.width, bottom - source.height) >= 0:
        beyond = max(-left, right - source.width + 1), max(-top, bottom - source.height + 1)
        if beyond[0] >= source.width or beyond[1] >= source.height:
            raise Unknown(f"a mirrored border of {beyond} pixels")


def _window(command: TpCommand) -> tuple[int, int, int, int]:
    def signed(value: int) -> int:
        return value - 0x10000 if value & 0x8000 else value

    return (
        signed(command.WINDOW_LEFT),
        signed(command.WINDOW_TOP),
        signed(command.WINDOW_RIGHT),
        signed(command.WINDOW_BOTTOM),
    )


def _border(command: TpCommand) -> float:
    """The value beyond the image; of bytes, the command has it less the zero point."""
    if command.INPUT_TYPE == FLOAT16:
        bits = np.array(command.BORDER_CONSTANT, np.uint16)
        return float(bits.view(np.float16))
    constant = command.BORDER_CONSTANT
    if constant >> 15:
        constant -= 1 << 16
    if command.INPUT_TYPE == INT16:
        if constant and command.INPUT_SHIFT:
            raise Unknown("a border of int16 values that are shifted")
        return float(constant)
    border = constant + command.INPUT_ZERO_POINT
    if not 0 <= border <= _LARGEST_BYTE or (constant and command.INPUT_TYPE != UINT8):
        raise Unknown(f"a border of {constant} more than the zero point of {command.INPUT_TYPE}")
    return float(border)


def _tiles(command: TpCommand, height: int, width: int) -> Tiles:
    """The image's tiles."""
    sizes = command.TILE_HEIGHT, command.TILE_WIDTH
    steps = command.TILE_STEP_Y, command.TILE_STEP_X
    if command.POOLING == _SLIDING:
        sizes = steps
    elif command.SQUARE:
        # Tiles are of what is squared.
        sizes = sizes[0] - command.POOLING_HEIGHT + 1, sizes[1] - command.POOLING_WIDTH + 1
        if sizes != steps:
            raise Unknown(f"squares of tiles of {sizes}, {steps} apart")
    elif command.POOLING == _BY_ITS_SIZE:
        left, top, right, bottom = _window(command)
        if steps[0] < bottom - top + 1 or steps[1] < right - left + 1:
            sizes = steps = _pooled_steps(command, sizes, steps)
        else:
            sizes = steps = height, width
    if 0 in sizes or 0 in steps:
        raise Unknown(f"tiles of {sizes}, {steps} apart")
    if len(range(0, height, steps[0])) * len(range(0, width, steps[1])) > 1 << 20:
        raise Unknown("more than a million tiles")
    return Tiles((height, width), sizes, steps)


def _pooled_steps(
    command: TpCommand, sizes: tuple[int, int], steps: tuple[int, int]
) -> tuple[int, int]:
    """Rows and pixels of results from one tile to the next, where tiles are of what is pooled."""
    windows = command.POOLING_HEIGHT, command.POOLING_WIDTH
    results = []
    for size, step, window, by in zip(sizes, steps, windows, _pooling_steps(command), strict=True):
        if step % by or step // by != (size - window) // by + 1:
            raise Unknown(f"a maximum over tiles of {sizes}, {steps} apart")
        results.append(step // by)
    return results[0], results[1]


def _block_sizes(tiles: Tiles, width: int) -> frozenset[int]:
    """How many values follow one another in a tile's row, a tile, and a row of tiles."""
    return frozenset(
        size
        for tile_height, tile_width in tiles.sizes
        for size in (tile_width, tile_height * tile_width, tile_height * width)
    )


def _target(
    context: OperationContext,
    command: TpCommand,
    planes: int,
    tiles: Tiles,
    sizes: frozenset[int],
) -> Scattered:
    """Where the values go; `sizes` are those of blocks that may be alike."""
    counts = (
        command.COUNT_0,
        command.COUNT_1,
        command.COUNT_2,
        command.COUNT_3,
        command.COUNT_4,
        command.COUNT_5,
        0,
    )
    item = _ITEMS[command.OUTPUT_TYPE]
    increments = tuple(command.signed(word) * item for word in TpCommand.INCREMENTS)
    resets = bool(command.RESET_1), bool(command.RESET_2), bool(command.RESET_3)
    address = context.address(POINTERS["output"])
    circle = context.circle(CIRCLE_ENDS["output"], command.OUTPUT_CIRCLE, address.space)
    walk = _Walk(Loops(counts, increments, resets), tiles, planes, sizes)
    found = _relative_places(context, walk, None)
    if circle is not None and address.offset + found.extent[1] >= circle.end:
        own = Circle(circle.end - address.offset, circle.size)
        found = _relative_places(context, walk, own)
    target = Scattered(address.space, found.shifted(address.offset), item)
    context.layout.check(target)
    return target


class _Walk(NamedTuple):
    """The values of so many planes of tiles in the order of loops, in blocks of some sizes."""

    loops: Loops
    tiles: Tiles
    planes: int
    sizes: frozenset[int]


def _relative_places(context: OperationContext, walk: _Walk, circle: Circle | None) -> Places:
    """Where values go from the first address on, in a circular buffer relative to it.

    Tiles of a layer that have the same sizes share them. Raises `Unknown` for what 32 bits don't
    hold.
    """
    known = context.shared.places
    if (walk, circle) not in known:
        if circle is not None and (
            turned := _relative_places(context, walk, None).turned(circle.end, circle.size)
        ):
            known[walk, circle] = turned
            return turned
        offsets = wrapped(places(walk.loops, walk.tiles, walk.planes), circle)
        limits = np.iinfo(np.int32)
        if offsets.min() < limits.min or offsets.max() > limits.max:
            raise Unknown(f"values go to bytes {offsets.min()} to {offsets.max()} from the first")
        known[walk, circle] = Places.of(offsets, *walk.sizes)
    return known[walk, circle]


def _table(context: OperationContext, command: TpCommand) -> Table:
    address = context.address(POINTERS["table"])
    if address.space.source is not Source.COEFFICIENTS:
        raise Unknown(f"a table from {address.space}")
    content = context.layout.blob(address.space)[address.offset :][:_TABLE_BYTES]
    if content.size < _TABLE_BYTES:
        raise Unknown(f"a table of {content.size} bytes, not {_TABLE_BYTES}")
    words = np.frombuffer(content.tobytes(), "<u4")
    return Table(
        table_values(words),
        is_signed=bool(command.SIGNED_TABLE),
        is_flipped=context.target != V853,
        rounds_parts=context.target == V853,
    )


def _fully_connected(
    context: OperationContext, command: TpCommand
) -> FullyConnected | HalfFullyConnected:
    types = command.INPUT_TYPE, command.OUTPUT_TYPE
    is_real = types in ((FLOAT16, FLOAT16), (BFLOAT16, BFLOAT16))
    takes_wide = types == (INT16, INT16)
    is_wide = takes_wide or types == (UINT8, INT16)
    if (types != (UINT8, UINT8) and not is_real and not is_wide) or command.TABLE:
        raise Unknown("a fully connected layer in this form")
    zero_points = command.INPUT_ZERO_POINT, command.COEFFICIENT_ZERO_POINT
    if (is_wide and command.OUTPUT_ZERO_POINT) or (takes_wide and any(zero_points)):
        raise Unknown("int16 values with a zero point")
    # What says how a maximum is taken elsewhere is the coefficients' type here.
    if (is_real or takes_wide) and command.POOLING != command.INPUT_TYPE:
        raise Unknown("a fully connected layer of coefficients of another type")
    inputs = command.INPUT_WIDTH * command.INPUT_HEIGHT * command.INPUT_DEPTH
    outputs = command.COUNT_4
    if not inputs or not outputs:
        raise Unknown(f"a fully connected layer of {inputs} to {outputs} values")
    windows = []
    for side, size, blocks in (
        ("input", inputs, command.INPUT_CIRCLE),
        ("output", outputs, command.OUTPUT_CIRCLE),
    ):
        address = context.address(POINTERS[side])
        circle = context.circle(CIRCLE_ENDS[side], blocks, address.space)
        has_two = is_real or takes_wide or (is_wide and side == "output")
        shape, strides = ((size, 2), (2, 1)) if has_two else ((size,), (1,))
        window = Window(address.space, address.offset, shape, strides, circle)
        context.layout.check(window)
        windows.append(window)
    weights, bias = _matrix(context, inputs, outputs, command.INPUT_TYPE)
    if is_real:
        is_bfloat16 = command.INPUT_TYPE == BFLOAT16
        _check_has_no_scale(command)
        return HalfFullyConnected(
            source=windows[0],
            target=windows[1],
            weights=_without_turn(weights, is_bfloat16=is_bfloat16),
            bias=bias.view(np.float32),
            has_relu=bool(command.RELU),
            is_bfloat16=is_bfloat16,
        )
    if not takes_wide:
        weights &= 255
    return FullyConnected(
        source=windows[0],
        target=windows[1],
        weights=weights - np.int16(command.COEFFICIENT_ZERO_POINT),
        bias=bias,
        input_zero_point=command.INPUT_ZERO_POINT,
        output_zero_point=command.OUTPUT_ZERO_POINT,
        scale=_scale(command),
        has_relu=bool(command.RELU),
        is_wide=is_wide,
        takes_wide=takes_wide,
    )


def _check_has_no_scale(command: TpCommand) -> None:
    """Raise `Unknown` for products of float16 that something else happens to."""
    scale = command.SHIFT, command.MULTIPLIER
    zero_points = command.INPUT_ZERO_POINT, command.OUTPUT_ZERO_POINT
    others = command.COEFFICIENT_ZERO_POINT, command.BORDER_CONSTANT
    if any(scale + zero_points + others):
        raise Unknown("a fully connected layer of float16 in this form")


def _without_turn(
    values: NDArray[np.int16], *, is_bfloat16: bool
) -> NDArray[np.float16] | NDArray[np.float32]:
    """Real numbers whose bits were turned so that the sign is the lowest one."""
    turned = values.view(np.uint16)
    bits = (turned >> 1 | turned << 15).astype(np.uint16)
    return from_bfloat16(bits) if is_bfloat16 else bits.view(np.float16)


def _matrix(
    context: OperationContext, inputs: int, outputs: int, kind: int
) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """The matrix as (outputs, inputs) values, and what is added: a stream for each input."""
    address = context.address(POINTERS["table"])
    blob = context.layout.blob(address.space)[address.offset :]
    header = Header.read(blob)
    if (header.is_wide, header.is_real) != (kind != UINT8, kind == FLOAT16):
        raise Unknown("coefficients of another type than the command's")
    sizes_end = HEADER_SIZE + (_SIZE_BITS * inputs + 7) // 8
    start = -(-sizes_end // _ALIGNMENT) * _ALIGNMENT
    position = start + -(-4 * outputs // _ALIGNMENT) * _ALIGNMENT
    if position > blob.size:
        raise Unknown(f"a blob of {blob.size} bytes for {inputs} inputs and {outputs} outputs")
    bits = np.unpackbits(blob[HEADER_SIZE:sizes_end], bitorder="little")[: _SIZE_BITS * inputs]
    sizes = bits.reshape(inputs, _SIZE_BITS) @ (1 << np.arange(_SIZE_BITS))
    bias = np.frombuffer(blob[start : start + 4 * outputs].tobytes(), "<i4")
    weights = np.empty((outputs, inputs), np.int16)
    for number, size in enumerate(sizes.tolist()):
        stream = blob[position : position + (size + 7) // 8]
        values, _ = decode(header, stream, size, outputs)
        weights[:, number] = np.cumsum(values) if header.are_differences else values
        position += (size + 7) // 8
    return weights, bias
