"""Register programs for RV1103, as a compiler would write them, carried out by the engine.

Numbers and values of registers are those that `generations/micro*.py` know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.addresses import AbsoluteAddresses
from anynpu.soft.engines.rknpu.command_stream import run_commands
from anynpu.soft.engines.rknpu.decode import decode_task
from anynpu.soft.engines.rknpu.decode.context import Context
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.graph import PreparedGraph
from anynpu.soft.engines.rknpu.kernels import KernelKind, plan_task
from anynpu.soft.engines.rknpu.memory import INTERNAL, MemoryMap
from anynpu.soft.engines.rknpu.tasks import Task
from anynpu.soft.formats.rknn.model import Generation
from anynpu.soft.formats.rknn.model import Task as CommandTask

CONVOLUTION, FROM_MEMORY, POOLING = 0x1D, 0x18, 0x60
"""Enable masks."""

LANES = 16
_KERNEL_GROUP, _CHANNEL_GROUP, _OPERAND_GROUP = 16, 32, 4
_CONSTANTS = 1
_PAGE = 4096
_ENTRIES = 513

Registers = Mapping[int, int]
Words = Sequence[tuple[int, int]]


@dataclass
class Program:
    """Constants, and after them memory that is filled and read by address."""

    constants: bytearray = field(default_factory=bytearray)
    tasks: list[tuple[int, Words]] = field(default_factory=list)
    inputs: dict[int, bytes] = field(default_factory=dict)
    kernels: frozenset[KernelKind] = frozenset({KernelKind.INT8})
    """Those that run the tasks, between them."""

    def constant(self, data: bytes) -> int:
        """The address of constants, which are all known before the first input."""
        address = len(self.constants)
        self.constants += data.ljust(-(-len(data) // 64) * 64, b"\0")
        return address

    def end_constants(self) -> int:
        """The first address of internal memory."""
        self.constants += bytes(-len(self.constants) % _PAGE or _PAGE)
        return len(self.constants)

    def run(self, address: int, size: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """What lies at an address after the last task: by the reference, and by the kernels."""
        base = len(self.constants)
        sections = {_CONSTANTS: np.frombuffer(bytes(self.constants), np.uint8)}
        used = MemoryMap(address - base + size, sections)
        tasks, found = {0: tuple(self._decoded(used))}, []
        for use_fast in (False, True):
            plans = {task.index: plan_task(task) for task in tasks[0]} if use_fast else {}
            known = {index: plan for index, plan in plans.items() if plan}
            prepared = PreparedGraph(tasks, used.needed_bytes, used.sections, frozenset(), known)
            memory = np.zeros(prepared.memory_bytes, np.uint8)
            for place, data in self.inputs.items():
                memory[place - base : place - base + len(data)] = np.frombuffer(data, np.uint8)
            prepared.executor(memory).run_node(0)
            wanted = self.kernels if use_fast else {KernelKind.REFERENCE}
            assert set(prepared.kernels_of(0)) == wanted
            found.append(memory[address - base : address - base + size].view(np.int8))
        return found[0], found[1]

    def _decoded(self, used: MemoryMap) -> Iterator[Task]:
        chip = GENERATIONS[Generation.MICRO]
        commands = [value << 16 | number for _, words in self.tasks for number, value in words]
        listed, first = [], 0
        for index, (mask, words) in enumerate(self.tasks):
            listed.append(CommandTask(index, 0, mask, 0, first, len(words)))
            first += len(words)
        stream = np.array(commands, np.uint64)
        addresses = AbsoluteAddresses([(_CONSTANTS, len(self.constants)), (INTERNAL, 0)])
        for state in run_commands(stream, listed, {}, chip.registers):
            if not state.loads_tables:
                context = Context(chip, used)
                yield decode_task(chip.task(state, addresses, context.constant_bytes), context)


def packed(x: NDArray[np.int8]) -> bytes:
    """(H, W, C) as channel blocks; lanes past the last channel are zero."""
    height, width, channels = x.shape
    blocks = -(-channels // LANES)
    padded = np.zeros((height, width, blocks * LANES), np.int8)
    padded[..., :channels] = x
    atoms = padded.reshape(height * width, blocks, LANES).transpose(1, 0, 2)
    return bytes(atoms.tobytes())


def unpacked(data: NDArray[np.int8], shape: tuple[int, int, int]) -> NDArray[np.int8]:
    """The features (H, W, C) of channel blocks."""
    height, width, channels = shape
    blocks = data.reshape(-1, height * width, LANES).transpose(1, 0, 2)
    features: NDArray[np.int8] = blocks.reshape(height, width, -1)[..., :channels]
    return features


def signed(value: int, bits: int = 32) -> int:
    """A two's complement number as a register has it."""
    return value & ((1 << bits) - 1)


def output_of(shape: tuple[int, int, int], address: int) -> dict[int, int]:
    """The writer's registers for features (H, W, C)."""
    height, width, channels = shape
    surface, last = height * width * LANES, -(-channels // LANES) * LANES - 1
    size = height - 1 << 16 | width - 1
    return {
        0x4020: address,
        0x4024: surface,
        0x4030: width - 1,
        0x4034: height - 1,
        0x403C: channels - 1 << 16 | last,
        0x4058: last // LANES << 16 | 3,
        0x405C: size,
        0x40C0: surface,
        0x500C: width - 1,
        0x5010: height - 1,
        0x5014: last,
    }


def converter(scale: int, shift: int, zero_point: int, ties_away: bool = False) -> dict[int, int]:
    """The output converter's registers."""
    return {0x4080: signed(zero_point), 0x4084: scale, 0x4088: shift | ties_away << 30}


RELU: Registers = {0x4060: 0x12, 0x40E0: 0}
"""BN that keeps what isn't negative."""


def upper_limit(limit: int) -> dict[int, int]:
    """A Clip from zero on."""
    return {**RELU, 0x40E4: limit}


def slope(factor: int) -> dict[int, int]:
    """BS that doesn't shift what is positive, and BN that multiplies the rest."""
    return {0x4040: 0x120180, 0x4060: 0x22, 0x4068: factor << 16}


TABLE: Registers = {
    0x4070: 0x1004140, 0x4108: 0x68, 0x410C: 0x50500, 0x4110: signed(-(512 << 5)), 0x4118: 0,
    0x411C: 512 << 5,
}  # fmt: skip
"""The tables after BN, entries 2^5 apart."""


def load_tables(negative: NDArray[np.int64], positive: NDArray[np.int64]) -> Words:
    """The words that fill both tables."""
    words = []
    for number, entries in enumerate((negative, positive)):
        assert len(entries) == _ENTRIES
        words.append((0x4100, 1 << 17 | number << 16))
        words += [(0x4104, signed(int(entry), 16)) for entry in entries]
    return words


@dataclass(frozen=True)
class Kernels:
    """Weights (K, C, KH, KW) as bytes, and of each kernel its zero point, bias and factor."""

    stored: NDArray[np.int64]
    zero_points: NDArray[np.int64]
    bias: NDArray[np.int64]
    factors: NDArray[np.int64]

    def weights(self) -> bytes:
        """In groups of kernels and of channels; lanes without a channel hold the zero point."""
        kernels, channels, height, width = self.stored.shape
        lanes = -(-channels // LANES) * LANES
        whole = np.empty((kernels, lanes, height, width), np.int64)
        whole[...] = self.zero_points[:, None, None, None]
        whole[:, :channels] = self.stored
        groups = [
            whole[kernel : kernel + _KERNEL_GROUP, lane : lane + _CHANNEL_GROUP]
            .transpose(2, 3, 0, 1)
            .ravel()
            for kernel in range(0, kernels, _KERNEL_GROUP)
            for lane in range(0, lanes, _CHANNEL_GROUP)
        ]
        return np.concatenate(groups).astype(np.int8).tobytes()

    def operands(self) -> bytes:
        """Biases, weight offsets and factors, four kernels at a time."""
        count = -(-len(self.bias) // _OPERAND_GROUP) * _OPERAND_GROUP
        parts = []
        for values, kind in ((self.bias, "<i4"), (-self.zero_points, "<i2"), (self.factors, "<i2")):
            whole = np.zeros(count, kind)
            whole[: len(values)] = values
            parts.append(whole.reshape(-1, _OPERAND_GROUP).view(np.uint8))
        return np.concatenate(parts, axis=1).tobytes()


def convolve(
    x: NDArray[np.int8],
    kernels: Kernels,
    size: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    zero_point: int,
    following: Registers,
    tables: Words = (),
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Features (H, W, C) through a convolution to `size` pixels: reference and kernels.

    `following` are the registers that differ from a BS that multiplies and shifts by 14.
    """
    height, width, channels = x.shape
    count, _, kernel_height, kernel_width = kernels.stored.shape
    lanes = -(-channels // LANES) * LANES
    of_kernel = lanes * kernel_height * kernel_width
    program = Program()
    weights, operands = (program.constant(data) for data in (kernels.weights(), kernels.operands()))
    source = program.end_constants()
    program.inputs[source] = packed(x)
    target = source + -(-height * width * lanes // 64) * 64
    shape = (*size, count)
    registers = {
        0x100C: 0,
        0x1014: dilation[0] - 1 << 21 | dilation[1] - 1 << 16 | stride[0] << 3 | stride[1],
        0x1020: width << 16 | height,
        0x1024: channels - 1 << 16 | lanes,
        0x1030: count * of_kernel,
        0x1034: of_kernel,
        0x1038: kernel_width << 24 | kernel_height << 16 | count,
        0x104C: 9,
        0x1068: padding[1] << 8 | padding[0],
        0x1070: source,
        0x107C: width * LANES // 4,
        0x1080: height * width,
        0x1110: weights,
        0x1184: signed(zero_point, 16),
        0x3010: 0,
        0x3014: size[0] - 1 << 16 | size[1] - 1,
        0x3018: -(-count // LANES) * LANES - 1,
        0x400C: 0x1E4,
        0x4010: 0,
        0x4040: 0x121D80,
        0x4050: 0x30000001,
        0x4054: 0x8E000000,
        0x4060: 0x13,
        0x4070: 0x10041C1,
        0x501C: 0xE,
        0x5020: operands,
        **output_of(shape, target),
        **following,
    }
    if tables:
        program.tasks.append((FROM_MEMORY, tables))
    program.tasks.append((CONVOLUTION, list(registers.items())))
    return _results(program, target, shape)


def combine(
    a: NDArray[np.int8], b: NDArray[np.int8], following: Registers
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Two features (H, W, C) through the element-wise stage: reference and kernels.

    Without other registers it is their sum / 2.
    """
    program = Program()
    first = program.end_constants()
    program.inputs[first] = packed(a)
    surface = len(program.inputs[first])
    second, target = first + surface, first + 2 * surface
    program.inputs[second] = packed(b)
    registers = {
        0x400C: 0x1E5,
        0x4010: 0,
        0x4018: 0,
        0x4040: 0x100012,
        0x4048: 0x4000 << 16,
        0x4050: 0x30000000,
        0x4060: 0x13,
        0x4070: 0x8002C0C0,
        0x4074: 0,
        0x4078: 0x4000,
        **output_of(a.shape, target),
        **converter(0x4000, 29, 0),
        0x5018: first,
        0x501C: 0,
        0x5034: 0x40000004,
        0x5038: second,
        0x5040: a.shape[0] * a.shape[1] * LANES,
        0x5044: 0x7809,
        **following,
    }
    program.tasks.append((FROM_MEMORY, list(registers.items())))
    return _results(program, target, a.shape)


def pool(
    x: NDArray[np.int8], kernel: tuple[int, int], stride: int, is_average: bool
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Features (H, W, C) through the PPU, without padding: reference and kernels."""
    height, width, channels = x.shape
    rows, columns = (height - kernel[0]) // stride + 1, (width - kernel[1]) // stride + 1
    # The int8 kernels know no averages.
    kinds = {KernelKind.GENERAL} if is_average else {KernelKind.INT8}
    program = Program(kernels=frozenset(kinds))
    source = program.end_constants()
    program.inputs[source] = packed(x)
    target = source + len(program.inputs[source])
    registers = {
        0x600C: width - 1,
        0x6010: height - 1,
        0x6014: channels - 1,
        0x6018: columns - 1,
        0x601C: rows - 1,
        0x6020: channels - 1,
        0x6024: 0x10 | (not is_average),
        0x6034: stride - 1 << 20 | stride - 1 << 16 | kernel[0] - 1 << 8 | kernel[1] - 1,
        0x6038: 65536 // kernel[1] if is_average else 0,
        0x603C: 65536 // kernel[0] if is_average else 0,
        0x6040: 0,
        0x6044: 0,
        0x6070: target,
        0x607C: rows * columns * LANES,
        0x6084: 0,
        0x700C: width - 1,
        0x7010: height - 1,
        0x7014: channels - 1,
        0x701C: source,
        0x7024: width * LANES,
        0x7028: height * width * LANES,
    }
    program.tasks.append((POOLING, list(registers.items())))
    return _results(program, target, (rows, columns, channels))


def _results(
    program: Program, target: int, shape: tuple[int, int, int]
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    blocks = -(-shape[2] // LANES)
    reference, fast = program.run(target, blocks * shape[0] * shape[1] * LANES)
    return unpacked(reference, shape), unpacked(fast, shape)
