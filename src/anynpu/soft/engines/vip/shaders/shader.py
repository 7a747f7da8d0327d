"""What the file says of a shader: images, and constants in registers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from ....formats.nbg.model import Patch, PatchedPlace, Source
from ..memory import MemoryMap, Space, Window, space_of
from ..metering import Meter
from ..operation import CORES, OperationContext
from ..refusal import Unknown

_LOAD_STATE = 1
_UNIFORMS = 512
"""Registers of 16 bytes."""
_FIRST_REGISTER = 0x36000
"""Where a shader's registers begin; they are named by the bytes from there."""

MOST_VALUES = 1 << 28
"""Of an operand: more than any memory of these chips holds, whatever strides say."""

_DTYPES: Mapping[int, np.dtype[np.generic]] = {
    0xF0: np.dtype(np.uint8),
    0xC0: np.dtype(np.uint8),
    0x30: np.dtype(np.int8),
    0x71: np.dtype(np.float16),
    0x41: np.dtype(np.float16),
    0x81: np.dtype(np.uint16),
    0xB1: np.dtype(np.uint16),
    0xC1: np.dtype(np.int16),
    0xF1: np.dtype(np.int16),
    0x82: np.dtype(np.int32),
    0xB2: np.dtype(np.int32),
    0x72: np.dtype(np.int32),
    0x02: np.dtype(np.float32),
    0x32: np.dtype(np.float32),
}
"""The types of images by the low byte of their format; of bfloat16 they are the bits."""

_CLAMPED = 0x30
"""Bits of a format of which either both are set or none."""

_COMPONENTS: Mapping[int, int] = {0x4440: 1, 0x3210: 4}
"""How many components an image has, by which of them its format puts in which place."""

_OF_FOUR: Mapping[int, np.dtype[np.generic]] = {
    0x34: np.dtype(np.float32),
    0x73: np.dtype(np.float16),
}
"""Those whose pixels are four values, which are seen as pixels here."""


@dataclass(frozen=True, eq=False)
class Image:
    """An operand: (planes, rows, pixels) of `dtype` in a window that has the bytes of each as well.

    `constant` has the values of one that lies among the coefficients, which nobody writes.
    `is_clamped` says that pixels outside are those of the edge. `pixel_values` of those that are
    called pixels here are one to a program; `components` how many values of 32 bits it may take of
    it and behind it.
    """

    window: Window
    dtype: np.dtype[np.generic]
    constant: NDArray[Any] | None = None
    is_clamped: bool = True
    pixel_values: int = 1
    components: int = 1

    @property
    def shape(self) -> tuple[int, int, int]:
        planes, rows, pixels, _ = self.window.shape
        return planes, rows, pixels


class Shader:
    """A shader's operands and constants; registers are named by their distance from the first.

    Raises `Unknown` for an operand that isn't understood. Once all operations are decoded it has
    its registers alone.
    """

    def __init__(self, context: OperationContext) -> None:
        self.name = context.layer
        self._context = context
        self._registers, self._places = _loads(context.state.tobytes())
        context.shared.at_end.append(WeakMethod(self._let_go))

    def _let_go(self) -> None:
        """Functions of a task may keep this; nothing of the file is to stay with them."""
        del self._context, self._places

    @cached_property
    def _addresses(self) -> dict[int, int]:
        """The registers that get an address, and the bytes at which their loads are."""
        found = {}
        for byte in self._context.patches(PatchedPlace.STATES):
            register = self._places.get(byte)
            if register is not None and register >= _FIRST_REGISTER:
                found[register - _FIRST_REGISTER] = byte
        return found

    def images(self, *registers: int) -> tuple[Image, ...]:
        """The images whose descriptors begin there; there are to be no other operands."""
        if set(registers) != set(self._addresses):
            found = ", ".join(hex(register) for register in sorted(self._addresses))
            raise Unknown(f"shader {self.name!r} with operands at {found}")
        return tuple(self._image(register) for register in registers)

    def images_of(self, *registers: int) -> tuple[Image, ...]:
        """The images whose descriptors begin there, of which a shader may have others as well."""
        missing = set(registers) - set(self._addresses)
        if missing:
            raise Unknown(f"shader {self.name!r} without an operand at {min(missing):#x}")
        return tuple(self._image(register) for register in registers)

    @property
    def layout(self) -> MemoryMap:
        return self._context.layout

    @property
    def meter(self) -> Meter:
        """What carrying out programs may still take while the file is loaded."""
        return self._context.shared.meter

    @property
    def operands(self) -> tuple[int, ...]:
        """The registers that get an address."""
        return tuple(sorted(self._addresses))

    def operand_space(self, register: int) -> Space:
        """The space that an operand lies in."""
        patch = self._operand(register)
        return space_of(patch.source, patch.number)

    def operand_offset(self, register: int) -> int:
        """The byte of its space at which an operand begins."""
        return self._operand(register).base + self.whole(register)

    def is_written_constant(self, register: int) -> bool:
        """Whether an operand is memory that the file has for shaders to write to."""
        return self._operand(register).source == Source.CONSTANTS_WRITTEN

    def image_at(self, register: int) -> Image:
        """The image whose descriptor begins there."""
        return self._image(register)

    def uniforms(self, addresses: Mapping[int, int]) -> NDArray[np.uint32]:
        """The registers as (register of 16 bytes, word), with these addresses in their places."""
        found = np.zeros((_UNIFORMS, 4), np.uint32)
        flat = found.reshape(-1)
        for register, value in self._registers.items():
            place = (register - _FIRST_REGISTER) // 4
            if 0 <= place < flat.size:
                flat[place] = value
        for register, address in addresses.items():
            if register // 4 >= flat.size:
                raise Unknown(f"shader {self.name!r} with an operand at {register:#x}")
            flat[register // 4] = address & 0xFFFFFFFF
        return found

    def state(self, register: int) -> int:
        """A register that isn't the program's, by its own number."""
        try:
            return self._registers[register]
        except KeyError:
            raise Unknown(f"shader {self.name!r} without register {register:#x}") from None

    @property
    def machine_code(self) -> NDArray[np.uint8]:
        """The program; raises `Unknown` for a file that doesn't show it."""
        programs = self._context.executable.shader_programs
        index = self._context.operation.index
        if not 0 <= index < len(programs):
            raise Unknown(f"shader {self.name!r} isn't known, and its program isn't in the file")
        return programs[index]

    @property
    def cores(self) -> int:
        """The NN cores of the chip that the file is for."""
        return CORES[self._context.target]

    def space(self, register: int) -> Space:
        """The space that an operand lies in from its beginning."""
        patch = self._operand(register)
        if patch.base + self.whole(register):
            raise Unknown(f"shader {self.name!r} with an operand inside a space")
        return space_of(patch.source, patch.number)

    def check(self, image: Image) -> None:
        """Raise `Unknown` if an image leaves its space."""
        self._context.layout.check(image.window)

    def constant(self, register: int) -> NDArray[np.uint8]:
        """The file's own bytes whose address a register gets."""
        patch = self._operand(register)
        constants = self._context.layout.constants
        space = space_of(patch.source, patch.number)
        if space.source is not Source.CONSTANTS or not 0 <= space.number < len(constants):
            raise Unknown(f"shader {self.name!r} with {space} at {register:#x}, not a constant")
        start = patch.base + self.whole(register)
        if start < 0:
            raise Unknown(f"shader {self.name!r} with bytes in front of {space} at {register:#x}")
        return constants[space.number][start:]

    def _operand(self, register: int) -> Patch:
        """Where the operand of a register lies."""
        byte = self._addresses.get(register)
        if byte is None:
            raise Unknown(f"shader {self.name!r} without an operand at {register:#x}")
        return self._context.patches(PatchedPlace.STATES)[byte]

    def _image(self, register: int) -> Image:
        patch = self._operand(register)
        row, sizes = self.whole(register + 4), self.whole(register + 8)
        kind = self.whole(register + 12) & 255
        dtype, lanes = _DTYPES.get(kind), 1
        if dtype is None:
            dtype, lanes = _OF_FOUR.get(kind), 4
        if dtype is None:
            raise Unknown(f"an image of format {kind:#04x} of shader {self.name!r}")
        is_clamped = kind & _CLAMPED == _CLAMPED
        components = _COMPONENTS.get(self.whole(register + 12) >> 16, 0)
        planes = max(self.whole(register + 20), 1)
        slice_bytes = self.whole(register + 16)
        window = Window(
            space_of(patch.source, patch.number),
            patch.base + self.whole(register),
            (planes, sizes >> 16, (sizes & 0xFFFF) * lanes, dtype.itemsize),
            (slice_bytes, row, dtype.itemsize, 1),
        )
        if 0 in window.shape or math.prod(window.shape) > MOST_VALUES:
            raise Unknown(f"an image of {window.shape[:3]} of shader {self.name!r}")
        if window.space.source is Source.COEFFICIENTS:
            return Image(
                window, dtype, self._constant(window, dtype), is_clamped, lanes, components
            )
        self._context.layout.check(window)
        return Image(window, dtype, None, is_clamped, lanes, components)

    def _constant(self, window: Window, dtype: np.dtype[np.generic]) -> NDArray[Any]:
        content = self._context.layout.blob(window.space)
        if window.extent[0] < 0 or window.extent[1] > content.size:
            raise Unknown(f"a constant of shader {self.name!r} that leaves {window.space}")
        view = np.lib.stride_tricks.as_strided(
            content[window.offset :], window.shape, window.strides, writeable=False
        )
        # A copy, which doesn't keep the file.
        values: NDArray[Any] = np.array(view, order="C").view(dtype)[..., 0]
        return values

    @cached_property
    def program(self) -> str:
        """A digest of the machine code, by which one is told from others of the name; 2.x only."""
        programs = self._context.executable.shader_programs
        index = self._context.operation.index
        if not 0 <= index < len(programs):
            return ""
        return _digest(programs[index])

    @cached_property
    def compared(self) -> tuple[str, frozenset[int]]:
        """A digest of the program but for what its comparisons ask, and the set of those."""
        programs = self._context.executable.shader_programs
        index = self._context.operation.index
        if not 0 <= index < len(programs):
            return "", frozenset()
        content = programs[index]
        words = content[: content.size // 16 * 16].copy().view("<u4").reshape(-1, 4)
        opcodes = words[:, 0] & 63 | (words[:, 2] >> 16 & 1) << 6
        compares = opcodes == _COMPARE
        conditions = frozenset((words[compares, 0] >> 6 & 31).tolist())
        words[compares, 0] &= ~np.uint32(31 << 6)
        return _digest(words), conditions

    def has_operand(self, register: int) -> bool:
        return register in self._addresses

    def has(self, register: int) -> bool:
        return register + _FIRST_REGISTER in self._registers

    def whole(self, register: int) -> int:
        """A register's 32 bits."""
        try:
            return self._registers[register + _FIRST_REGISTER]
        except KeyError:
            raise Unknown(f"shader {self.name!r} without register {register:#x}") from None

    def signed(self, register: int) -> int:
        """A register as a two's complement number."""
        value = self.whole(register)
        return value - (1 << 32) if value >> 31 else value

    def real(self, register: int) -> np.float32:
        """A register as a float32."""
        value: np.float32 = np.uint32(self.whole(register)).view(np.float32)
        return value

    def expect(self, constants: Mapping[int, int]) -> None:
        """Raise `Unknown` unless registers hold what the known shaders of the name have there."""
        for register, value in constants.items():
            if not self.has(register) or self.whole(register) != value:
                raise Unknown(
                    f"shader {self.name!r} in a form that isn't known: register {register:#x}"
                )


_COMPARE = 0x31
"""The instruction whose bits 6 to 10 say what it asks of two values."""


def _digest(content: NDArray[Any]) -> str:
    return hashlib.sha256(content.tobytes()).hexdigest()[:16]


def _loads(state: bytes) -> tuple[dict[int, int], dict[int, int]]:
    """The registers' values, and the register that each byte's word is for."""
    # The module struct would keep a format for each length.
    words = np.frombuffer(state, "<u4", len(state) // 4).tolist()
    values, places = {}, {}
    position = 0
    while position < len(words):
        command = words[position]
        if command >> 27 != _LOAD_STATE:
            position += 2
            continue
        count, first = command >> 16 & 0x3FF, (command & 0xFFFF) * 4
        for number, value in enumerate(words[position + 1 : position + 1 + count]):
            values[first + 4 * number] = value
            places[4 * (position + 1 + number)] = first + 4 * number
        position += 1 + count + (count + 1) % 2
    return values, places
