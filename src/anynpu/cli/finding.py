"""One finding of `anynpu doctor`."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(str, enum.Enum):
    """Whether anything is to be done."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What was looked at, what was found, and what to do, if anything."""

    subject: str
    state: State
    found: str
    advice: str = ""


def fine(subject: str, found: str) -> Finding:
    """Nothing is to be done."""
    return Finding(subject, State.FINE, found)


def note(subject: str, found: str, advice: str = "") -> Finding:
    """Good to know."""
    return Finding(subject, State.NOTE, found, advice)


def wrong(subject: str, found: str, advice: str) -> Finding:
    """Something is to be done."""
    return Finding(subject, State.WRONG, found, advice)
