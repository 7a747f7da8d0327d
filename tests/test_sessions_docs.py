"""The page on sessions lists every option, with its default."""

from __future__ import annotations

import re
from pathlib import Path

from anynpu import InferenceSession
from anynpu.backends.rknn.options import RknnOptions

PAGE = (Path(__file__).parents[1] / "docs" / "sessions.md").read_text()
OPTIONS = dict(re.findall(r"^\| `(\w+)`[^|]*\| ([^|]*?) \|", PAGE.partition("## Options")[2], re.M))


def test_every_option_is_listed_with_its_default() -> None:
    defaults = RknnOptions().as_dict()
    assert set(OPTIONS) == set(defaults)
    # These two follow from the other options, as the page says.
    assert defaults.pop("dispatch") is None
    assert defaults.pop("tp_mode") is None
    for name, default in defaults.items():
        if default in (None, ()):
            text = "none"
        elif isinstance(default, bool):
            text = str(default).lower()
        else:
            text = f'`"{default}"`' if isinstance(default, str) else str(default)
        assert OPTIONS[name].startswith(text), name


def test_every_alias_is_listed() -> None:
    for name in RknnOptions.names():
        assert f"`{name}`" in PAGE


def test_every_call_exists() -> None:
    calls = re.findall(r"^\| `(?:await )?(\w+)\(", PAGE, re.MULTILINE)
    assert len(calls) >= 7
    for name in calls:
        assert callable(getattr(InferenceSession, name))
