"""`anynpu cache`: what is kept in the user's cache, and to remove it."""

from __future__ import annotations

import argparse
from typing import Any

from ..native import cache

_MEGABYTE = 2**20


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "cache",
        description=f"Show what is kept in ${cache.ENVIRONMENT_VARIABLE}, or in anynpu in "
        "$XDG_CACHE_HOME (~/.cache), and how much it takes.",
    )
    parser.add_argument(
        "--clear", action="store_true", help="remove it; it is made again as needed"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.clear:
        cache.clear()
    print(cache.cache_root())
    for name, what in cache.CONTENTS.items():
        print(f"  {cache.size_of(name) / _MEGABYTE:9.1f} MB  {name}: {what}")
    return 0
