"""Whether descriptions are the same but for some fields."""

from __future__ import annotations

from typing import Any

import numpy as np

NOTHING: frozenset[str] = frozenset()


def are_alike(one: Any, other: Any, but: frozenset[str] = NOTHING) -> bool:
    """Whether two descriptions of a type have the same in all fields, arrays by their identity."""
    theirs = vars(other)
    for name, value in vars(one).items():
        if value is not theirs[name] and name not in but and not is_same(value, theirs[name]):
            return False
    return True


def is_same(one: Any, other: Any) -> bool:
    """Whether two things in a description are; arrays are that are one."""
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, np.ndarray):
        return False
    try:
        return bool(one == other)
    except ValueError:
        # There are arrays in them that aren't one.
        return False
