"""Shaders' programs: what they compute, and which of them are refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.vip import units
from anynpu.soft.engines.vip.decode.shader import decode_shader
from anynpu.soft.engines.vip.memory import Memory, Space, Window
from anynpu.soft.engines.vip.operation import OperationContext, Shared
from anynpu.soft.engines.vip.reference.compute import compute
from anynpu.soft.engines.vip.refusal import Unknown
from anynpu.soft.engines.vip.shaders.machine.program import ProgramTask, program_of
from anynpu.soft.engines.vip.shaders.shader import Shader
from anynpu.soft.engines.vip.tasks import Task
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg.model import OperationKind, Source

from . import assembler as asm
from .test_compiled_files import FILES, content_of, names
from .test_shaders import U8, network

_CONSTANT = {
    0x804: 1, 0x830: 0x0F3F0000, 0x868: 1, 0x87C: 0, 0x8A0: 0, 0x8B8: 0x80, 0x920: 0xBADABEEB,
    0xAA8: 0, 0x1010: 0xF00, 0x1024: 0, 0x1028: 0, 0x1030: 0, 0x1048: 0, 0x1058: 0, 0x109C: 0,
    0x3808: 0x701, 0x380C: 0x24, 0x3888: 0x7F0000, 0x389C: 0, 0x15600: 2, 0xA30: 0x100, 0xA90: 0,
    0x1080: 0, 0x381C: 0, 0x900: 3 << 24 | 2, 0x924: 0, 0x92C: 0, 0x934: 0, 0x93C: 0,
    0x1008: 0x1F01, 0x100C: 4,
}  # fmt: skip


def context(
    program: NDArray[np.uint8],
    shape: tuple[int, int, int],
    *,
    items: tuple[int, int],
    step: int = 8,
    changed: Mapping[int, int] | None = None,
) -> OperationContext:
    """A shader that turns an image of bytes into one of the same sizes."""
    images = [(0x00, shape, U8, 1), (0x20, shape, U8, 1)]
    made, layout = network("OfItsOwn", images, {0x40: 5})
    length = program.size // 16
    registers = _CONSTANT | {
        0x940: items[0] - 1, 0x944: items[1] - 1, 0x948: 0xFFFFFFFF, 0x94C: 0, 0x950: 0,
        0x954: 0x3FF, 0x958: step, 0x95C: 1, 0x960: 0, 0x1090: length, 0x1094: length - 1,
    } | dict(changed or {})  # fmt: skip
    words: list[int] = []
    for register, value in registers.items():
        words += [1 << 27 | 1 << 16 | register >> 2, value]
    more = np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint8)
    # Images' words have an odd count, which one that is skipped makes even.
    states = (np.concatenate([made.executable.states[0], more]),)
    executable = replace(made.executable, states=states, shader_programs=(program,))
    return OperationContext(made.model, executable, layout, 0, Shared())


def load(lanes: tuple[int, int] = (0, 7), target: int = 1) -> list[int]:
    given = asm.uniform(0), asm.register(0), asm.whole(0)
    return asm.instruction(
        asm.IMAGE_LOAD, asm.U8, given, target=target, lanes=lanes, flags=asm.PLAIN
    )


def store(source: int = 1) -> list[int]:
    given = asm.uniform(2), asm.register(0), asm.register(source)
    return asm.instruction(asm.IMAGE_STORE, asm.U8, given, lanes=(0, 7), flags=asm.PLAIN)


COPY = asm.assembled(load(), store())


def run(made: OperationContext, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    task = decode_shader(made)
    assert isinstance(task, ProgramTask)
    memory = Memory(made.layout)
    memory.space(Space(Source.INPUT))[:] = values.ravel()
    compute(task, memory)
    found: NDArray[np.uint8] = memory.space(Space(Source.OUTPUT)).reshape(values.shape).copy()
    return found


@pytest.mark.parametrize("pixels", [5, 8, 20])
def test_pixels_beyond_an_image_are_not_stored(pixels: int) -> None:
    values = np.random.default_rng(pixels).integers(0, 256, (1, 3, pixels), np.uint8)
    made = context(COPY, (1, 3, pixels), items=(-(-pixels // 8), 3))
    np.testing.assert_array_equal(run(made, values), values)


def test_what_is_read_and_written_is_told() -> None:
    task = decode_shader(context(COPY, (1, 3, 20), items=(3, 3)))
    (read,), (written,) = task.reads(), task.writes()
    assert isinstance(written, Window)
    assert (read.space, read.shape) == (Space(Source.INPUT), (1, 3, 20, 1))
    assert (written.space, written.shape) == (Space(Source.OUTPUT), (1, 3, 20, 1))


def test_a_part_of_an_image_that_is_not_written_is_told() -> None:
    task = decode_shader(context(COPY, (1, 3, 20), items=(1, 3)))
    pieces = [window for window in task.writes() if isinstance(window, Window)]
    assert [(piece.offset, piece.shape) for piece in pieces] == [(0, (8,)), (20, (8,)), (40, (8,))]


def test_work_items_go_ways_of_their_own() -> None:
    """Items whose row is less than 2 store what they read, the others what is one more."""
    one = asm.whole(0x101)
    program = asm.assembled(
        load(),
        asm.instruction(
            asm.BRANCH, asm.S32, [asm.register(0, 0x55), asm.whole(2)], condition=asm.LESS, jump=3
        ),
        asm.instruction(
            asm.ADD, asm.U8, [asm.register(1), None, (one[0], one[1], 7)], target=1, flags=0
        ),
        store(),
    )
    program.view("<u4")[11] |= 4 << 25  # of 16 bits
    values = np.random.default_rng(3).integers(0, 255, (1, 4, 8), np.uint8)
    found = run(context(program, (1, 4, 8), items=(1, 4)), values)
    np.testing.assert_array_equal(found[0, :2], values[0, :2])
    np.testing.assert_array_equal(found[0, 2:], values[0, 2:] + 1)


def test_a_program_that_does_not_end_is_refused() -> None:
    made = context(
        asm.assembled(load(), asm.instruction(asm.BRANCH, asm.F32, jump=0), store()),
        (1, 1, 8),
        items=(1, 1),
    )
    made.shared.meter.left = 1 << 16
    with pytest.raises(Unknown, match="doesn't end"):
        decode_shader(made)


def test_programs_of_a_file_share_what_they_may_take() -> None:
    made = context(COPY, (1, 3, 20), items=(3, 3))
    before = made.shared.meter.left
    decode_shader(made)
    assert made.shared.meter.left < before


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ([load(), [0x3F, 4, 0, 0], store()], "instruction 1: operation 0x3f"),
        ([load(), store(5)], "instruction 1: register 5 of 4"),
        ([load(), [*store()[:3], store()[3] | 1 << 13]], "half a thread"),
        ([load(lanes=(0, 3)), store()], "depend on bytes of which nothing is known"),
        ([load()], "stores nothing"),
        (
            [load(), asm.instruction(asm.BRANCH, asm.F32, jump=9), store()],
            "branch to instruction 9 of 3",
        ),
        (
            [
                asm.instruction(
                    asm.LOAD, asm.F32, [asm.uniform(4, 0), asm.whole(0)], target=1,
                    flags=asm.PLAIN | asm.OF_MEMORY,
                ),
                store(),
            ],
            "isn't any operand's",
        ),
        (
            [
                load(),
                asm.instruction(
                    asm.STORE, asm.F32, [asm.uniform(2, 0), asm.whole(64), asm.register(1)],
                    flags=asm.PLAIN | asm.OF_MEMORY,
                ),
                store(),
            ],
            "are written",
        ),
    ],
)  # fmt: skip
def test_a_program_that_is_not_known_is_refused(program: list[list[int]], reason: str) -> None:
    with pytest.raises(Unknown, match=f"isn't known; its program: .*{reason}"):
        decode_shader(context(asm.assembled(*program), (1, 1, 8), items=(1, 1)))


@pytest.mark.parametrize(
    ("register", "value", "reason"),
    [
        (0x900, 4 << 24 | 2, "in the form 0x4000002"),
        (0x94C, 0x3FF, "work items"),
        (0x940, 1 << 30, "1073741825 work items"),
        (0x8B8, 0x81, "0x81 in register 0x8b8"),
        (0x100C, 1 << 20, "1048576 registers"),
        (0x1090, 1000, "a program of 1000 instructions"),
    ],
)
def test_work_items_that_are_not_known_are_refused(register: int, value: int, reason: str) -> None:
    changed = {register: value} | ({0x950: 1} if register == 0x94C else {})
    made = context(COPY, (1, 1, 8), items=(1, 1), changed=changed)
    with pytest.raises(Unknown, match=reason):
        decode_shader(made)


def test_items_wait_for_each_other() -> None:
    program = asm.assembled(
        load(),
        asm.instruction(
            asm.BRANCH, asm.S32, [asm.register(0, 0x55), asm.whole(1)], condition=asm.LESS, jump=3
        ),
        asm.instruction(asm.BARRIER, asm.F32, flags=0),
        store(),
    )
    with pytest.raises(Unknown, match="a barrier that not all"):
        decode_shader(context(program, (1, 2, 8), items=(1, 2)))


def _has_program(model: nbg.Nbg) -> bool:
    is_any = any(operation.kind == OperationKind.SHADER for operation in model.operations)
    return is_any and model.executable is not None and bool(model.executable.shader_programs)


@pytest.mark.parametrize("name", names())
def test_programs_give_the_emulator_s_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of shaders that a family knows, too."""
    model = nbg.read(content_of(name))
    if not _has_program(model):
        pytest.skip("it has no program of a shader")
    count = 0

    def of_program(made: OperationContext) -> Task:
        nonlocal count
        try:
            task = program_of(Shader(made))
        except Unknown:
            return decode_shader(made)
        count += 1
        return task

    decoders = dict(units.DECODERS) | {OperationKind.SHADER: of_program}
    monkeypatch.setattr("anynpu.soft.engines.vip.prepare.DECODERS", decoders)
    instance = vip.load(model).instance(0)
    if not count:
        pytest.skip("its programs have something that isn't known")
    with np.load(FILES / f"{name}.npz") as archive:
        values = dict(archive)
    for index, array in enumerate(instance.inputs):
        array[...] = values[f"in{index}"].reshape(array.shape)
    instance.run()
    for index, array in enumerate(instance.outputs):
        np.testing.assert_array_equal(array, values[f"hw{index}"].reshape(array.shape))
