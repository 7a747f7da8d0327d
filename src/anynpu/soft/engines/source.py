"""Where a model's bytes come from, so that they can be had again when they are needed again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ..mapping import give_back, map_file

_ALIGNED = 64
"""A model that begins elsewhere in its file is copied: its arrays would lie across words."""

_SETTLED = 2_000_000_000
"""Nanoseconds after which a file that is written to again gets another time."""

Stamp = tuple[int, int, int, int]
"""Which file it is, and when it was written: device, number, bytes, nanoseconds."""


class ModelBytes:
    """A model's bytes, `data`: those that were given, or a file's pages where that can be mapped.

    Pages are read from the file when they are looked at, and take no memory after `give_back` until
    they are looked at again; processes that have mapped the same file share them. A file that is
    written to changes what they hold, which is for `check` to see; one that takes its name, as
    `os.replace` does, changes nothing.
    """

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self._pages: NDArray[np.uint8] | None = None
        self._fd, self._close = -1, os.close
        self._name, self._stamp = "", (0, 0, 0, 0)

    @classmethod
    def of_file(cls, file: BinaryIO, start: int, end: int) -> ModelBytes:
        """A part of an open file, `start` to `end`, which it has."""
        if start % _ALIGNED == 0:
            try:
                pages = map_file(file.fileno(), end)
            except OSError:
                pass  # Some file systems can't.
            else:
                mapped = cls(b"")
                mapped.data, mapped._pages = memoryview(pages.data)[start:], pages
                mapped._name, mapped._fd = file.name, os.dup(file.fileno())
                mapped._stamp = _stamp(os.fstat(mapped._fd))
                return mapped
        file.seek(start)
        return cls(file.read(end - start))

    def check(self) -> None:
        """Raise `ModelError` where the bytes are a file's that was written to since it was mapped.

        Reading what such a file has lost would end the process.
        """
        if self._pages is not None and _stamp(os.fstat(self._fd)) != self._stamp:
            raise ModelError(
                f"{self._name} was written to since the model was loaded from it: load it again. "
                "A new file that takes its name (os.replace, mv) changes nothing for a model that "
                "is loaded"
            )

    def give_back(self) -> None:
        """Free the memory of a file's pages; they are read again when they are looked at again."""
        if self._pages is not None:
            give_back(self._pages)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._close(self._fd)


@dataclass(frozen=True)
class ModelSource:
    """A model file, or a part of a file (`size` 0: to its end), or bytes in memory.

    Profiling a model and sharing its weights read it a second time; a file must not have changed
    by then.
    """

    data: bytes | None = None
    path: Path | None = None
    offset: int = 0
    size: int = 0
    stamp: Stamp | None = None
    is_settled: bool = False
    """Whether it is a file that `stamp` tells from all others: clocks of files are coarse."""

    @classmethod
    def of(
        cls, model: bytes | str | os.PathLike[str], offset: int = 0, size: int = 0
    ) -> ModelSource:
        """The source for bytes or a path; raises OSError for a path that can't be read."""
        if isinstance(model, bytes):
            return cls(data=model)
        path = Path(model)
        stamp = _stamp(path.stat())
        is_settled = time.time_ns() - stamp[-1] > _SETTLED
        return cls(path=path, offset=offset, size=size, stamp=stamp, is_settled=is_settled)

    def begin(self, size: int = 128) -> bytes:
        """The model's first bytes; errors as for `read`."""
        return self._bytes(size)

    def read(self) -> bytes:
        """The model's bytes; `ModelError` for a part that isn't there and a file that changed."""
        return self._bytes(None)

    def mapped(self) -> ModelBytes:
        """The model's bytes, without a copy where that is possible; errors as for `read`."""
        if self.data is not None:
            return ModelBytes(self.data)
        with self._opened() as (file, start, end):
            return ModelBytes.of_file(file, start, end)

    def _bytes(self, most: int | None) -> bytes:
        if self.data is not None:
            return self.data if most is None else self.data[:most]
        with self._opened() as (file, start, end):
            file.seek(start)
            return file.read(end - start if most is None else min(end - start, most))

    @contextmanager
    def _opened(self) -> Iterator[tuple[BinaryIO, int, int]]:
        """The file, where the model begins and where it ends."""
        assert self.path is not None, "a source is bytes or a path"
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            if _stamp(status) != self.stamp:
                raise ModelError(f"{self.path} has changed since the model was loaded")
            end = self.offset + self.size if self.size else status.st_size
            if not 0 <= self.offset < end <= status.st_size:
                raise ModelError(
                    f"{self.path} has {status.st_size} bytes, none at offset {self.offset} + "
                    f"{self.size}"
                )
            yield file, self.offset, end


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
