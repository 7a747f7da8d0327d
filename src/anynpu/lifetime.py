"""What opens also closes: `Closeable` is the `with` statement of what holds a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

_Self = TypeVar("_Self", bound="Closeable")


class Closeable(ABC):
    """Something with `close()`, which may be called twice, and which `with` calls."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held; twice does nothing."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
