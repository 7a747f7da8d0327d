"""Whole numbers and truth values on the vendor's library arrive and keep their type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from .board import BoardPython
from .python_programs import whole_numbers


@pytest.mark.parametrize("name", ["argmax", "gather", "truth", "add_int32"])
def test_whole_numbers(board_python: Callable[..., BoardPython], name: str) -> None:
    """It takes no bool, and gives int32 as float32 only; both with the code 0."""
    outcome = board_python().call(whole_numbers.run, name)
    assert outcome.error == ""
    expected = whole_numbers.expected(name)
    for way in ("run", "submit"):
        np.testing.assert_array_equal(outcome.values[way], expected)
        assert outcome.values[way].dtype == expected.dtype
    lines = [line for line in outcome.complaints if "output dtype is undefine" not in line]
    assert lines == []
