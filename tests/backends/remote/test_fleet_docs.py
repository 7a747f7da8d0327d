"""The page on many boards: its options, its errors and its balancer are what is there."""

from __future__ import annotations

import re
from pathlib import Path

import anynpu
from anynpu.backends.remote.options import RemoteOptions
from anynpu.options import Options

PAGE = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text()


def test_every_option_is_listed_with_its_default() -> None:
    table = PAGE.partition("## Options")[2]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*?) \|", table, re.M)
    listed = {name: default for names, default in rows for name in re.findall(r"\w+", names)}
    own = set(RemoteOptions.names()) - set(Options.names())
    assert set(listed) == own
    for name, default in RemoteOptions().as_dict().items():
        if name in own and default is not None:
            assert listed[name] == str(default)
    for name in ("max_queue_size", "submit_timeout_ms", "sequential_callbacks", "enable_pacing"):
        assert f"`{name}`" in PAGE


def test_every_error_is_listed_with_its_other_base() -> None:
    listed = dict(re.findall(r"^\| `(\w+Error)` \| (?:`(\w+)`)? ?\|$", PAGE, re.M))
    kinds = {kind.__name__: kind for kind in anynpu.ServerError.__subclasses__()}
    assert set(listed) == set(kinds)
    for name, other in listed.items():
        bases = {base.__name__ for base in kinds[name].__mro__}
        assert not other or other in bases
