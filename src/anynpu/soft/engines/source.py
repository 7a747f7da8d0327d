"""Where a model's bytes come from, so that they can be had again when they are needed again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...native.memory import address_of
from ..mapping import Extent, gaps_between, private_pages, show_file, show_private

_ALIGNED = 64
"""A model that begins elsewhere in its file is copied: its arrays would lie across words."""

_SETTLED = 2_000_000_000
"""Nanoseconds after which a file that is written to again gets another time."""

Stamp = tuple[int, int, int, int]
"""Which file it is, and when it was written: device, number, bytes, nanoseconds."""


SHARED_FILES = "ANYNPU_SOFT_SHARED_FILES"


def shares_files() -> bool:
    """Whether runs read weights in files' own pages, as ``$ANYNPU_SOFT_SHARED_FILES`` asks for."""
    return os.environ.get(SHARED_FILES, "") == "1"


class ModelBytes:
    """A model's bytes, `data`: those that were given, or a file's.

    A file's are in memory of the process's own while somebody has them `held`, so that nothing that
    happens to the file can hurt a reader. After that what somebody wanted to `keep` stays there;
    the file's pages are in place of the rest, without a copy, for those who look again: `check`
    sees whether the file was written to, and `held` reads it anew. One that takes the file's name,
    as `os.replace` does, changes nothing.
    """

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self._pages: NDArray[np.uint8] | None = None
        self._start, self._fd, self._close = 0, -1, os.close
        self._name, self._stamp = "", (0, 0, 0, 0)
        self._lock, self._holders, self._shows_file = threading.RLock(), 0, False
        self._kept: set[Extent] = set()

    @classmethod
    def of_file(cls, file: BinaryIO, start: int, end: int) -> ModelBytes:
        """A part of an open file, `start` to `end`, which it has."""
        fd = file.fileno()
        if start % _ALIGNED:
            file.seek(start)
            return cls(file.read(end - start))
        result = cls(b"")
        result._stamp, result._name, result._start = _stamp(os.fstat(fd)), file.name, start
        try:
            pages = private_pages(fd, start, end)
        except ValueError as error:
            raise ModelError(f"{file.name}: {error}") from None
        result.data, result._pages = memoryview(pages.data).toreadonly()[start:], pages
        result._fd = os.dup(fd)
        return result

    @contextmanager
    def held(self) -> Iterator[None]:
        """In memory of the process's own; raises `ModelError` where the file was written to."""
        self._hold()
        try:
            yield
        finally:
            self._release()

    def _hold(self) -> None:
        with self._lock:
            if self._shows_file and self._pages is not None:
                self.check()
                try:
                    show_private(self._pages, self._fd, self._start, self._gaps(self._pages))
                except ValueError:
                    raise ModelError(self._complaint) from None
                # Something may have been written while it was read.
                self._check_stamp()
                self._shows_file = False
            self._holders += 1

    def _release(self) -> None:
        """The last one gives the memory back where that is possible."""
        with self._lock:
            self._holders -= 1
            if self._holders or self._pages is None:
                return
            gaps = self._gaps(self._pages)
            if gaps and _stamp(os.fstat(self._fd)) == self._stamp:
                # Also where it fails: some may have been exchanged before. Some file systems can't.
                self._shows_file = True
                with suppress(OSError):
                    show_file(self._pages, self._fd, gaps)

    def keep(self, addresses: Iterable[Extent]) -> None:
        """Never give back what lies at `addresses`; the bytes are `held`.

        Addresses of something else do nothing.
        """
        with self._lock:
            if self._pages is not None:
                base, size = address_of(self._pages), self._pages.size
                self._kept.update(
                    (max(low - base, 0), min(end - base, size))
                    for low, end in addresses
                    if low < base + size and end > base
                )

    def _gaps(self, pages: NDArray[np.uint8]) -> list[Extent]:
        """What nobody wanted to keep."""
        return gaps_between(self._kept, pages.size)

    def check(self) -> None:
        """Raise `ModelError` where the bytes are those of a file that was written to since."""
        if self._shows_file:
            self._check_stamp()

    def _check_stamp(self) -> None:
        if _stamp(os.fstat(self._fd)) != self._stamp:
            raise ModelError(self._complaint)

    @property
    def _complaint(self) -> str:
        return (
            f"{self._name} was written to since the model was loaded from it: load it again. "
            "A new file that takes its name (os.replace, mv) changes nothing for a model that "
            "is loaded"
        )

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
