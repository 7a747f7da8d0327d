"""Compiled samples with their inputs: those of the shared folder."""

from __future__ import annotations

from pathlib import Path

from ...shared import SAMPLES
from .vendor import UnavailableError


def files(chip: str) -> list[Path]:
    """A chip's compiled files; raises `UnavailableError` where there are none."""
    found = sorted((SAMPLES / chip).glob("*.rknn"))
    if not found:
        raise UnavailableError(f"no compiled samples in {SAMPLES / chip}; set $ANYNPU_SHARED")
    return found


def file(chip: str, name: str) -> Path:
    """The file of a name; raises `UnavailableError` where it isn't there."""
    found = SAMPLES / chip / f"{name}.rknn"
    if not found.is_file():
        raise UnavailableError(f"{found} is not there; set $ANYNPU_SHARED")
    return found
