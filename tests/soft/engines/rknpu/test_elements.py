"""Element types by the registers' numbers."""

from __future__ import annotations

import pytest

import anynpu
from anynpu.soft.engines.rknpu.elements import Element


def test_known_and_unknown_numbers() -> None:
    assert [Element(number).size for number in range(6)] == [1, 2, 2, 2, 4, 4]
    for number in (6, 7):
        with pytest.raises(anynpu.ModelError, match=f"type {number} "):
            Element(number)
