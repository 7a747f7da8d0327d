"""Arrays over memory of C's: they keep what owns it alive, and it knows whether there are any."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .errors import TensorError


class _Export:
    """What an array is made of: it keeps the owner alive, and lives as long as the array."""

    def __init__(self, owner: object, address: int, size: int) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (address, False),
        }


class SharedArrays:
    """The arrays that share one memory. The owner holds this, and each array the owner."""

    def __init__(self) -> None:
        self._exports: list[weakref.ref[Any]] = []

    @property
    def are_alive(self) -> bool:
        """Whether somebody still has one of the arrays."""
        return any(reference() is not None for reference in self._exports)

    def array(
        self,
        owner: object,
        address: int,
        size: int,
        shape: Sequence[int] | None,
        dtype: DTypeLike,
    ) -> NDArray[Any]:
        """An array over the memory of `size` bytes from its first byte on: no copy, writable.

        Without a shape it is flat and as long as fits. Raises `TensorError` for a shape that the
        memory is too small for.
        """
        kind = np.dtype(dtype)
        wanted = (size // kind.itemsize,) if shape is None else tuple(shape)
        needed = math.prod(wanted) * kind.itemsize
        if needed > size:
            raise TensorError(f"{kind} {wanted} takes {needed} bytes; the memory has {size}")
        export = _Export(owner, address, needed)
        self._exports = [reference for reference in self._exports if reference() is not None]
        self._exports.append(weakref.ref(export))
        shared: NDArray[Any] = np.asarray(export).view(kind).reshape(wanted)
        return shared
