"""Buffers that rknn_outputs_get allocated: each lives until it is released.

As on a board, by whichever context, and the one that lent it may be gone by then. A board never
frees what is never released; here what the contexts that were destroyed first left is freed when it
comes to too much.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from numpy.typing import NDArray

from ... import process

_MOST_LEFT_BYTES = 32 * 2**20


class Lender:
    """Who lends: a context, or what is left of it."""


class LentOutputs:
    """Buffers by their addresses. Any thread may use it.

    The garbage collector may end a forgotten context in the middle of each method, on the same
    thread: the lock may be taken again, and what is gone through is a copy.
    """

    def __init__(self) -> None:
        self._lock = process.lock()
        self._buffers: dict[int, tuple[Lender, NDArray[Any]]] = {}
        self._left: deque[list[int]] = deque()

    def __len__(self) -> int:
        return len(self._buffers)

    def lend(self, lender: Lender, buffer: NDArray[Any]) -> int:
        """Keep a buffer for a program; returns its address."""
        address = buffer.ctypes.data
        with self._lock:
            self._buffers[address] = lender, buffer
        return address

    def take_back(self, address: int) -> bool:
        """Free a buffer; False for what isn't lent."""
        with self._lock:
            return self._buffers.pop(address, None) is not None

    def outlive(self, lender: Lender) -> None:
        """Keep what a context lent that goes now, but not everything of those that went before."""
        with self._lock:
            lent = self._buffers.copy()
            left = [address for address, (owner, _) in lent.items() if owner is lender]
            if left:
                self._left.append(left)
            while len(self._left) > 1 and self._left_bytes() > _MOST_LEFT_BYTES:
                for address in self._left.popleft():
                    self._buffers.pop(address, None)

    def _left_bytes(self) -> int:
        left = (self._buffers.get(address) for each in list(self._left) for address in each)
        return sum(entry[1].nbytes for entry in left if entry is not None)


LENT = LentOutputs()
