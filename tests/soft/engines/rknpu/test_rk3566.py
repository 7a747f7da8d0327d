"""What RK3566's registers say, where it isn't what RK3588's do."""

from __future__ import annotations

import pytest

from anynpu.soft.engines.rknpu.generations.rk3566.generation import Rk3566
from anynpu.soft.engines.rknpu.registers.quantities import Quantity

from .commands import task_of

ROWS, CHANNELS = 24, 32


@pytest.mark.parametrize(
    ("written", "channels"),
    [
        (ROWS * CHANNELS, CHANNELS),  # one phase of an interpolation
        (CHANNELS, CHANNELS),
        (16, 16),
    ],
)
def test_a_phase_has_rows_times_channels_in_its_channel_register(
    written: int, channels: int
) -> None:
    words = {
        0x100C: 3,  # a depthwise convolution
        0x300C: 2,
        0x3010: (ROWS - 1) << 16 | (ROWS - 1),
        0x3014: CHANNELS - 1,
        0x400C: 0x138,
        0x4010: 0,
        0x403C: 15 << 16 | (written - 1),
    }
    task = task_of(Rk3566(), words, 0x1F)
    assert task[Quantity.CHANNELS] == channels
    assert task[Quantity.OWN_CHANNELS] == 16
    assert task[Quantity.WRITTEN_CHANNELS] == written
