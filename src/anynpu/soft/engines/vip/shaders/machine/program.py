"""A shader's program, resolved: what an operation that no family knows does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .....formats.nbg.model import Source
from ...memory import MemoryMap, Space, Window
from ...refusal import Unknown
from ...tasks import Task
from ..shader import Image, Shader
from .execution import carry_out
from .instructions import Group, Instruction, decoded
from .launch import launch_of
from .operations import asked_of
from .products import TABLE_WORDS, Products, products_of
from .ranges import Bytes, Contents, Range, ranges_of
from .state import SCRATCH_BYTES, ImageOf, Program, Touched, Watch, word_dtype
from .types import DTYPES, FLOATS, name_of

_UNIFORM_BYTES = _REGISTER_BYTES = 16


@dataclass(frozen=True, eq=False)
class ProgramTask(Task):
    """A shader that is carried out instruction by instruction.

    `blobs` are the file's coefficients that it reads. `work` is how many instructions, on an item
    each, a run takes.
    """

    program: Program
    blobs: Mapping[Space, Bytes]
    sources: tuple[Window, ...]
    outputs: tuple[Window, ...]
    work: int

    @property
    def macs(self) -> int:
        return self.work * _PRODUCTS_OF_ONE

    def reads(self) -> Iterator[Window]:
        yield from self.sources

    def writes(self) -> Iterator[Window]:
        yield from self.outputs


_PRODUCTS_OF_ONE = 1 << 10
"""Products that take as long as an instruction on an item: some fifty nanoseconds."""


def program_of(shader: Shader) -> ProgramTask:
    """What a shader's program does; raises `Unknown` for what isn't known of it.

    It is rehearsed, twice, with different bytes in the place of those that nobody knows.
    """
    content = shader.machine_code
    launch = launch_of(shader)
    size = launch.instructions * 16
    if not 0 < size <= content.size:
        raise Unknown(f"a program of {size} bytes of {content.size}")
    instructions = decoded(content[:size])
    _check_registers(instructions, launch.registers)
    _check_patterns(instructions)
    operands = shader.operands
    spaces = [shader.operand_space(register) for register in operands]
    ranges = ranges_of(shader.layout, spaces)
    uniforms = shader.uniforms({
        register: ranges[space].start + shader.operand_offset(register)
        for register, space in zip(operands, spaces, strict=True)
    })  # fmt: skip
    named = _image_uniforms(instructions)
    windows = {number: shader.image_at(number * _UNIFORM_BYTES) for number in named}
    images = {
        number: _image(window, ranges[window.window.space]) for number, window in windows.items()
    }
    _check_images(instructions, images, uniforms)
    products = _products(instructions, uniforms)
    scratch = _scratch(shader, instructions, named)
    program = Program(
        instructions, launch, uniforms, images, products, tuple(ranges.values()), scratch
    )
    return _rehearsed(shader, program, windows)


def _scratch(
    shader: Shader, instructions: tuple[Instruction, ...], images: Mapping[int, None]
) -> dict[Space, Bytes | None]:
    """The constants of a program whose work items wait for each other: groups write to them."""
    if not any(instruction.name == "barrier" for instruction in instructions):
        return {}
    found: dict[Space, Bytes | None] = {}
    for register in shader.operands:
        space = shader.operand_space(register)
        if space.source is Source.CONSTANTS and register // _UNIFORM_BYTES not in images:
            content = shader.layout.constants[space.number][:SCRATCH_BYTES]
            found[space] = None if shader.is_written_constant(register) else content.copy()
    return found


def _check_registers(instructions: tuple[Instruction, ...], count: int) -> None:
    for number, instruction in enumerate(instructions):
        registers = [register for source in instruction.sources for register in source.registers]
        used = [s.number for s in registers if s.group is Group.TEMPORARY]
        if instruction.target is not None:
            used.append(instruction.target)
        if max(used, default=0) >= count:
            raise Unknown(f"instruction {number}: register {max(used)} of {count}")


_OF_IMAGES = ("img_load", "img_load_3d", "img_store", "img_store_3d")


def _image_uniforms(instructions: tuple[Instruction, ...]) -> dict[int, None]:
    found: dict[int, None] = {}
    for number, instruction in enumerate(instructions):
        if instruction.name not in _OF_IMAGES:
            continue
        image, _, offsets = instruction.sources
        if image.group is not Group.UNIFORM or image.swizzle != (0, 1, 2, 3):
            raise Unknown(f"instruction {number}: an image that no uniform describes")
        is_load = instruction.name.startswith("img_load")
        if is_load and offsets.group is not Group.IMMEDIATE:
            raise Unknown(f"instruction {number}: offsets that aren't constant")
        if instruction.mask != tuple(range(len(instruction.mask))):
            raise Unknown(f"instruction {number}: components {instruction.mask} of an image")
        found[image.number] = None
    return found


def _check_patterns(instructions: tuple[Instruction, ...]) -> None:
    """Raise `Unknown` for an order of lanes that each work item has for itself."""
    for number, instruction in enumerate(instructions):
        if instruction.name != "swizzle":
            continue
        _, pattern, mask = instruction.sources
        if pattern.group is Group.TEMPORARY or mask.group is not Group.IMMEDIATE:
            raise Unknown(f"instruction {number}: an order of lanes that isn't constant")


def _image(image: Image, range_: Range) -> ImageOf:
    window = image.window
    _, height, width = image.shape
    row = window.strides[1]
    start = range_.start + window.offset
    values = image.pixel_values
    return ImageOf(
        range_, start, row, width // values, height, image.dtype, values, image.components,
        image.is_clamped,
    )  # fmt: skip


def _reached(instructions: tuple[Instruction, ...], uniforms: NDArray[np.uint32]) -> frozenset[int]:
    """The instructions that some work item may come to: uniforms say where some branches go."""
    found: set[int] = set()
    waiting = [0]
    while waiting:
        place = waiting.pop()
        if place in found or place >= len(instructions):
            continue
        found.add(place)
        instruction = instructions[place]
        is_taken = _is_taken(instruction, uniforms) if instruction.name == "br" else False
        if is_taken is not False:
            waiting.append(instruction.jump)
        if is_taken is not True:
            waiting.append(place + 1)
    return frozenset(found)


def _is_taken(branch: Instruction, uniforms: NDArray[np.uint32]) -> bool | None:
    """Whether all work items take a branch; None where they may differ."""
    if not branch.sources:
        return True
    dtype = word_dtype(branch.kind)
    values = []
    for source in branch.sources:
        if source.group is Group.UNIFORM:
            word = uniforms[source.number, source.swizzle[0]]
        elif source.group is Group.IMMEDIATE:
            word = np.uint32(source.number)
        else:
            return None
        values.append(np.atleast_1d(word).view(dtype))
    return bool(asked_of(branch.condition, *values)[0])


def _check_images(
    instructions: tuple[Instruction, ...],
    images: dict[int, ImageOf],
    uniforms: NDArray[np.uint32],
) -> None:
    """Raise `Unknown` for types of pixels, or lanes, that an instruction isn't known to take."""
    reached = _reached(instructions, uniforms)
    for number, instruction in enumerate(instructions):
        if instruction.name not in _OF_IMAGES or number not in reached:
            continue
        source = instruction.sources[0]
        own, dtype = images[source.number].dtype, DTYPES[instruction.kind]
        first, last = instruction.first_lane, instruction.last_lane
        if dtype.itemsize < 4 and not first <= last < _REGISTER_BYTES // dtype.itemsize:
            raise Unknown(f"instruction {number}: lanes {first} to {last} of a register")
        is_load = instruction.name.startswith("img_load")
        if is_load and len(instruction.mask) > images[source.number].components:
            raise Unknown(f"instruction {number}: {len(instruction.mask)} components of a pixel")
        if own.itemsize == dtype.itemsize:
            continue
        is_real = instruction.kind in FLOATS
        if dtype.itemsize != 4 or is_real is not (own == np.float16):
            raise Unknown(
                f"instruction {number}: {instruction.name!r} of {name_of(instruction.kind)} "
                f"with an image of {own}"
            )


def _products(
    instructions: tuple[Instruction, ...], uniforms: NDArray[np.uint32]
) -> dict[int, Products]:
    found = {}
    for number, instruction in enumerate(instructions):
        if not instruction.name.startswith("dp") or instruction.name == "dp4":
            continue
        table = instruction.sources[2]
        words = uniforms.reshape(-1)[4 * table.number : 4 * table.number + TABLE_WORDS]
        if words.size != TABLE_WORDS:
            raise Unknown(f"instruction {number}: a table beyond the registers")
        try:
            found[number] = products_of(instruction, words.copy())
        except Unknown as reason:
            raise Unknown(f"instruction {number}: {reason}") from None
    return found


_UNKNOWN_BYTES = (0x00, 0x9D)


def _stored(contents: Contents, watch: Watch) -> dict[Space, tuple[int, bytes, bytes]]:
    """What a run stored in each space: from where on, which bytes, and their values."""
    return {
        space: (
            touched.low,
            touched.bytes().tobytes(),
            contents(space)[touched.low : touched.high][touched.bytes()].tobytes(),
        )
        for space, touched in watch.stored.items()
    }


def _rehearsed(shader: Shader, program: Program, images: dict[int, Image]) -> ProgramTask:
    """Run a program on bytes of no meaning, to see what it touches, and that it ends."""
    results: list[dict[Space, tuple[int, bytes, bytes]]] = []
    before = shader.meter.left
    watch = Watch()
    for unknown in _UNKNOWN_BYTES:
        contents = _Rehearsal(shader, images, unknown)
        watch = Watch()
        with np.errstate(all="ignore"):
            carry_out(program, contents, shader.meter, unknown, watch)
        results.append(_stored(contents, watch))
    if results[0] != results[1]:
        raise Unknown("results that depend on bytes of which nothing is known")
    work = (before - shader.meter.left) // len(_UNKNOWN_BYTES)
    windows = [image.window for image in images.values()]
    outputs = _windows(watch.stored, windows, shader.layout)
    if not outputs:
        raise Unknown("a program that stores nothing")
    for image in images.values():
        beyond = _beyond(image)
        if beyond is not None and image.window.space in watch.loaded:
            watch.loaded[image.window.space].forget(*beyond)
    loaded = {
        space: touched for space, touched in watch.loaded.items() if space.source not in _GIVEN
    }
    sources = _windows(loaded, windows, shader.layout)
    blobs = {
        range_.space: shader.layout.blob(range_.space).copy()
        for range_ in program.ranges
        if range_.space.source is Source.COEFFICIENTS
    }
    return ProgramTask(program, blobs, sources, outputs, work)


_GIVEN = (Source.COEFFICIENTS, Source.CONSTANTS)
"""What is in the file."""

MOST_PIECES = 1 << 14


def _windows(
    found: dict[Space, Touched], images: list[Window], layout: MemoryMap
) -> tuple[Window, ...]:
    """Windows of bytes that were touched: whole images, and pieces of what isn't one."""
    windows: list[Window] = []
    for space, touched in found.items():
        _, size = layout.place(space)
        rest = touched.bytes()[: max(0, size - touched.low)].copy()
        whole = rest.copy()
        for window in images:
            low, high = window.extent
            if window.space != space or low < touched.low or high > touched.low + rest.size:
                continue
            if _view(whole, window, touched.low).all():
                windows.append(window)
                _view(rest, window, touched.low)[...] = False
        ends = np.flatnonzero(np.diff(rest, prepend=False, append=False)).reshape(-1, 2)
        if ends.shape[0] > MOST_PIECES:
            raise Unknown(f"{ends.shape[0]} pieces of {space}")
        windows += [
            Window(space, touched.low + low, (high - low,), (1,)) for low, high in ends.tolist()
        ]
    return tuple(windows)


def _view(content: NDArray[np.bool_], window: Window, start: int) -> NDArray[np.bool_]:
    return np.lib.stride_tricks.as_strided(
        content[window.offset - start :], window.shape, window.strides
    )


_NO_MEANING = 0x3C
"""What pixels are in a rehearsal, but those of 32 bits, which may say places and are zero."""

_MOST_FILLED = 1 << 26
"""Bytes of images that are filled."""


def _beyond(image: Image) -> tuple[int, int] | None:
    """Bytes of the last pixel that lie behind an image's row, of which nothing is known."""
    window = image.window
    _, rows, pixels, item = window.shape
    if image.pixel_values == 1 or rows != 1 or window.strides[1] >= pixels * item:
        return None
    high = window.extent[1]
    return high - (pixels * item - window.strides[1]), high


def _is_given(shader: Shader, number: int) -> bool:
    """Whether an image is in the file's constants, and no shader writes there."""
    register = number * _UNIFORM_BYTES
    is_constant = shader.operand_space(register).source is Source.CONSTANTS
    return is_constant and not shader.is_written_constant(register)


class _Rehearsal:
    """Memory of no meaning; what the file has itself is there."""

    def __init__(self, shader: Shader, images: dict[int, Image], unknown: int) -> None:
        self._layout = shader.layout
        self._found: dict[Space, Bytes] = {}
        given = [number for number in images if _is_given(shader, number)]
        for number, image in images.items():
            low, high = image.window.extent
            if image.constant is not None or number in given:
                continue
            if image.dtype.itemsize != _WORD:
                if high - low > _MOST_FILLED:
                    raise Unknown(f"an image of {high - low} bytes")
                self(image.window.space)[low:high] = _NO_MEANING
            beyond = _beyond(image)
            if beyond is not None:
                self(image.window.space)[slice(*beyond)] = unknown

    def __call__(self, space: Space) -> Bytes:
        found = self._found.get(space)
        if found is None:
            found = self._new(space)
            self._found[space] = found
        return found

    def _new(self, space: Space) -> Bytes:
        if space.source is Source.COEFFICIENTS:
            return self._layout.blob(space)
        # Zeros that nobody touches take no memory.
        _, size = self._layout.place(space)
        found = np.zeros(size, np.uint8)
        if space.source is Source.CONSTANTS:
            data = self._layout.constants[space.number]
            found[: data.size] = data
        return found


_WORD = 4
