"""Where a model's bytes come from, so that they can be had again when they are needed again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...errors import ModelError


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
    stamp: tuple[int, int] | None = None

    @classmethod
    def of(
        cls, model: bytes | str | os.PathLike[str], offset: int = 0, size: int = 0
    ) -> ModelSource:
        """The source for bytes or a path; raises OSError for a path that can't be read."""
        if isinstance(model, bytes):
            return cls(data=model)
        path = Path(model)
        return cls(path=path, offset=offset, size=size, stamp=_stamp(path))

    def begin(self, size: int = 128) -> bytes:
        """The model's first bytes; errors as for `read`."""
        return self._bytes(size)

    def read(self) -> bytes:
        """The model's bytes; `ModelError` for a part that isn't there and a file that changed."""
        return self._bytes(None)

    def _bytes(self, most: int | None) -> bytes:
        if self.data is not None:
            return self.data if most is None else self.data[:most]
        assert self.path is not None, "a source is bytes or a path"
        if _stamp(self.path) != self.stamp:
            raise ModelError(f"{self.path} has changed since the model was loaded")
        with open(self.path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            end = self.offset + self.size if self.size else length
            if not 0 <= self.offset < end <= length:
                raise ModelError(
                    f"{self.path} has {length} bytes, none at offset {self.offset} + {self.size}"
                )
            file.seek(self.offset)
            size = end - self.offset
            return file.read(size if most is None else min(size, most))


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
