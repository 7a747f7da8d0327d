"""RK3566's registers in RK3588's terms."""

from __future__ import annotations

import numpy as np
import pytest

from anynpu.soft.engines.rknpu.command_stream import TaskState
from anynpu.soft.engines.rknpu.generations.rk3566 import Rk3566
from anynpu.soft.engines.rknpu.registers.dpu import DpuChannel, DpuWriteSize0

from .commands import no_constants

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
    tables = (np.zeros(513, np.int16), np.zeros(513, np.int16))
    found = Rk3566().translate(TaskState(0, 0, 0x1F, words, {}, tables, False), no_constants)
    assert DpuChannel.CHANNEL.of(found[DpuChannel.number]) + 1 == channels
    assert DpuChannel.ORIG_CHANNEL.of(found[DpuChannel.number]) == 15
    assert DpuWriteSize0.CHANNEL_WDMA.of(found[DpuWriteSize0.number]) + 1 == written
