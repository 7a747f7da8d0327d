"""Where what is built at run time is kept."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT_VARIABLE = "ANYNPU_CACHE"


def cache_folder(name: str) -> Path:
    """A folder of the user's cache: ``$ANYNPU_CACHE``, else ``$XDG_CACHE_HOME``, else ~/.cache."""
    if named := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(named) / name
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "anynpu" / name
