"""How a unit sees a tensor in memory: channels, rows and pixels at byte addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .memory import Circle, Memory, MemoryMap, Space, Window


@dataclass(frozen=True, slots=True)
class Planes:
    """Channels of rows of pixels.

    `row` is bytes from a row to the next of a channel that lies alone, `plane` bytes from one
    channel, or one group of channels, to the next. The channels of a group, `group` of them, lie
    side by side in each pixel, and a row takes `group` times as many bytes. A pixel of one channel
    has `item` bytes.
    """

    space: Space
    offset: int
    circle: Circle | None
    channels: int
    height: int
    width: int
    row: int
    plane: int
    group: int = 1
    item: int = 1

    def windows(self) -> Iterator[tuple[slice, Window]]:
        """The bytes as windows (groups, channels of a group, rows, pixels, bytes of one).

        There is one for the whole groups and one for what is left; each with its channels.
        """
        whole, rest = divmod(self.channels, self.group)
        parts = [(0, whole, self.group)] if whole else []
        if rest:
            parts.append((whole, 1, rest))
        for first, groups, channels in parts:
            window = Window(
                self.space,
                self.offset + first * self.plane,
                (groups, channels, self.height, self.width, self.item),
                (
                    self.plane,
                    self.item,
                    self.row * self.group,
                    self.item * self.group,
                    1,
                ),
                self.circle,
            )
            start = first * self.group
            yield slice(start, start + groups * channels), window

    def check(self, layout: MemoryMap) -> None:
        """Raise `Unknown` if they leave their space."""
        for _, window in self.windows():
            layout.check(window)

    def read(self, memory: Memory) -> NDArray[np.uint8]:
        """The bytes as (channels, rows, pixels, bytes of one), in place or copied."""
        parts = [self._flat(memory.read(window)) for _, window in self.windows()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def write(self, memory: Memory, values: NDArray[np.uint8]) -> None:
        """Store (channels, rows, pixels, bytes of one)."""
        for channels, window in self.windows():
            memory.write(window, values[channels].reshape(window.shape))

    def _flat(self, window: NDArray[np.uint8]) -> NDArray[np.uint8]:
        groups, channels, height, width, item = window.shape
        return window.reshape(groups * channels, height, width, item)
