"""What an RK3588 made of a convolution, byte for byte.

Mesa's Teflon driver wrote the buffers of a depthwise convolution on a board; they are in
``tests/data/teflon-dw-capture`` of the repository gregordinary/rocket-userspace. Name that folder
in ``$ANYNPU_TEFLON_CAPTURE``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.kernels import KernelKind
from tests.soft.engines.rknpu.descriptions import (
    Scene,
    channels,
    convolution,
    convolution_task,
    depthwise_weights,
    dpu,
    features,
    output,
    stage,
)

_FOLDER = os.environ.get("ANYNPU_TEFLON_CAPTURE", "")
_CHANNELS, _SIZE, _KERNEL = 64, 8, 3

pytestmark = pytest.mark.skipif(
    not _FOLDER, reason="$ANYNPU_TEFLON_CAPTURE names no folder with a board's buffers"
)


def buffer(name: str, kind: Any) -> NDArray[Any]:
    return np.fromfile(Path(_FOLDER) / f"mesa-{name}-000-000.bin", kind)


def planes(name: str) -> NDArray[np.int8]:
    """Channel blocks of a buffer as (C, H, W)."""
    blocks = buffer(name, np.int8)[: _CHANNELS * _SIZE**2].reshape(-1, _SIZE, _SIZE, 16)
    values: NDArray[np.int8] = blocks.transpose(0, 3, 1, 2).reshape(_CHANNELS, _SIZE, _SIZE)
    return values


@pytest.mark.parametrize("padding", [0, 1])
def test_a_depthwise_convolution(padding: int) -> None:
    """The capture's registers: weights + 128, a scale of 17675 / 2^22, zero point -123."""
    stored = buffer("weights", np.int8)[: _KERNEL**2 * _CHANNELS]
    weights = stored.reshape(_KERNEL, _KERNEL, _CHANNELS).transpose(2, 0, 1)
    size = _SIZE - _KERNEL + 1 + 2 * padding
    what = convolution(
        features((_CHANNELS, _SIZE, _SIZE)), depthwise_weights(weights), size, size,
        padding=(padding, padding), padding_value=126.0, weight_offset=128,
    )  # fmt: skip
    bias = channels(buffer("biases", np.int32)[:_CHANNELS])
    stages = dpu(bs=stage(add=bias), output=output(scale=17675, shift=22, offset=-123))
    task = convolution_task(what, stages)
    scene = Scene()
    scene.put(planes("input"))
    scene.run(task, KernelKind.INT8)
    found, expected = scene.get((_CHANNELS, size, size)), planes("output")
    if not padding:
        np.testing.assert_array_equal(found, expected[:, 1:-1, 1:-1])
        return
    # The driver gave odd channels of the first 32 something else to be padded with.
    np.testing.assert_array_equal(found[::2], expected[::2])
    np.testing.assert_array_equal(found[32:], expected[32:])
