"""What `run` costs besides the device's time: on a device that takes none, against a peer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .measure import Comparison, compare
from .null_device import NullDevice, null_device


def run(rounds: int) -> Iterator[Comparison]:
    """The ratio is anynpu's time over the peer's."""
    with null_device() as device:
        device.cores(0, 0, 0)
        for size in (4, 224, 640):
            for dtype in (np.float32, np.uint8):
                yield _measure(device, size, dtype, rounds)


def _measure(device: NullDevice, size: int, dtype: type, rounds: int) -> Comparison:
    shape = (1, 3, size, size)
    device.shape(shape)
    values: dict[str, NDArray[Any]] = {"x": np.ones(shape, dtype)}
    theirs = device.open_peer()
    with device.open() as ours:
        return compare(
            f"run() / EZ, null device, {size}x{size}x3 {dtype.__name__}",
            lambda: ours.run(None, values),
            lambda: theirs.run(None, values),
            rounds=max(rounds, 10),
            repeat=200 if size < 100 else 10,
            goal=1.0,
        )
