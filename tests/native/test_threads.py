"""How many threads kernels share: what the process is given, or what the environment says."""

from __future__ import annotations

import os

import pytest

from anynpu.errors import OptionError
from anynpu.native.threads import ENVIRONMENT_VARIABLE, MOST, thread_count


def test_as_many_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    for count in (1, 2, MOST, MOST + 1):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=count: set(range(n)))
        assert thread_count() == min(count, MOST)


@pytest.mark.parametrize(("word", "count"), [("1", 1), (" 8 ", 8), ("16", 16), ("03", 3)])
def test_the_environment_says_another_number(
    word: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, word)
    assert thread_count() == count


@pytest.mark.parametrize("word", ["0", "17", "-1", "2.0", "two", "²", "1" * 5000, "0" * 5000 + "1"])
def test_other_words_are_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, word)
    with pytest.raises(OptionError, match=ENVIRONMENT_VARIABLE):
        thread_count()
