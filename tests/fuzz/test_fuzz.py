"""A minute of fuzzing, and what once failed."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from . import checks
from .compiled_files import damaged


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_damaged_compiled_files(found: tuple[str, bytes]) -> None:
    checks.compiled_file(found[1])
