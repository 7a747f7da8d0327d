"""The end of the interpreter while calls are inside the soft NPU."""

from __future__ import annotations

import pytest

from anynpu.soft.cabi import doors


class _Library:
    """native/door.c, with a call inside that ends when it was told `times` times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.told = 0
        self.log: list[str] = []

    def anynpu_door_close(self) -> None:
        self.log.append("close")

    def anynpu_door_drain(self, nanoseconds: int) -> bool:
        assert nanoseconds > 0
        return self.told >= self.times

    def anynpu_door_end(self) -> None:
        self.log.append("end")


@pytest.mark.parametrize("times", [0, 1, 3])
def test_calls_are_told_to_end_until_they_do(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A run that was only being prepared when it was told has to hear it again."""
    library = _Library(times)

    def tell() -> None:
        library.told += 1

    monkeypatch.setattr(doors, "_hurriers", [tell])
    doors._end(library)
    assert library.told == times
    assert library.log == ["close", "end"]
