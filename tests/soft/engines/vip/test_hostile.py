"""Commands and values that did harm once are refused by name, or computed as the reference does."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.vip.commands.fields import Field, bits
from anynpu.soft.engines.vip.commands.nn import NnCommand
from anynpu.soft.engines.vip.memory import MemoryMap, Space
from anynpu.soft.engines.vip.planes import Planes
from anynpu.soft.engines.vip.reference.nn import whole_bytes
from anynpu.soft.engines.vip.reference.table import look_up
from anynpu.soft.engines.vip.refusal import Refusal, Unknown
from anynpu.soft.engines.vip.stream.tables import read_table
from anynpu.soft.engines.vip.tasks import Table
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg.model import Source
from tests.fuzz.checks import RAN, vip_file

FILE = Path(__file__).resolve().parents[3] / "data" / "compiled" / "nbg" / "residual.t527.nb"
LOW, HIGH = bits(30, 0, 31), bits(29, 0, 31)
"""The limits of a clamp."""


def changed(field: Field, value: int) -> bytes:
    """The file with another value of a field in its first NN command."""
    data = bytearray(FILE.read_bytes())
    section = next(s for s in nbg.read(bytes(data)).sections if s.name == "NN operations")
    for word, low, high in reversed(field.parts):
        place, mask = section.offset + 4 * word, (1 << high - low + 1) - 1
        (old,) = struct.unpack_from("<I", data, place)
        struct.pack_into("<I", data, place, old & ~(mask << low) | (value & mask) << low)
        value >>= high - low + 1
    return bytes(data)


def bits_of(value: float) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


@pytest.mark.parametrize("field", [NnCommand.OFFSET_X, NnCommand.OFFSET_Y])
@pytest.mark.parametrize("offset", [1, 7])
def test_a_border_of_more_pixels_than_the_kernel_has(field: Field, offset: int) -> None:
    """16 less than that are in front of the image, of which the first sums see none."""
    assert vip_file(changed(field, offset)) == RAN


@pytest.mark.parametrize(("limit", "value"), [(LOW, math.inf), (HIGH, -math.inf), (HIGH, math.nan)])
def test_limits_that_leave_no_number(limit: Field, value: float) -> None:
    with pytest.raises(Refusal, match="a clamp"):
        vip.load(nbg.read(changed(limit, bits_of(value))))


def test_a_limit_beyond_a_byte() -> None:
    assert vip_file(changed(LOW, bits_of(1e36))) == RAN


def test_limits_below_what_is_not_negative() -> None:
    """Which of the two comes first would make a difference."""
    with pytest.raises(Refusal, match="a clamp"):
        vip.load(nbg.read(changed(HIGH, bits_of(-1e36))))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_table_of_values_that_are_not_finite(value: float) -> None:
    table = Table(np.zeros(1026), is_signed=True, is_flipped=True)
    with pytest.raises(Refusal, match="aren't finite"):
        look_up(table, np.array([0.5, value]))


def test_a_byte_of_no_number() -> None:
    with pytest.raises(Refusal, match="no number"):
        whole_bytes(np.array([1.0, math.nan]), 0)


def test_bytes_that_are_used_many_times() -> None:
    """Rows and channels without a distance take no room, and would take years."""
    model = nbg.read(FILE.read_bytes())
    assert model.executable is not None
    space = Space(Source.INPUT)
    image = Planes(space, 0, None, 16383, 8191, 15, row=0, plane=0)
    with pytest.raises(Unknown, match="are used"):
        image.check(MemoryMap(model, model.executable))


@pytest.mark.parametrize("part", ["memory_pool_size", "vip_sram_size"])
def test_memory_of_more_places_than_kernels_have(part: str) -> None:
    model = nbg.read(FILE.read_bytes())
    assert model.executable is not None
    with pytest.raises(Refusal, match="is larger than"):
        MemoryMap(replace(model, **{part: 1 << 31}), model.executable)  # type: ignore[arg-type]


def test_a_program_s_table_with_an_entry_beyond_all_numbers() -> None:
    words = np.zeros(1027, "<u4")
    words[3], words[1024] = 255 << 12, 4 << 24
    with pytest.raises(Unknown, match="no finite number"):
        read_table(words.tobytes())
