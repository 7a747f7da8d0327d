"""Boards with the vendor's library, for tests; they skip with the reason where it can't be had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .board import BoardPython, VendorBoard
from .vendor import UnavailableError


@pytest.fixture(scope="session")
def vendor_board(_own_cache: None) -> Iterator[Callable[..., VendorBoard]]:
    """A function that makes a board of a chip, by `VendorBoard`'s arguments; one board for each."""
    made: dict[Any, VendorBoard] = {}
    with ExitStack() as stack:

        def make(chip: str = "rk3588", **options: Any) -> VendorBoard:
            key = (chip, repr(options))
            if key not in made:
                try:
                    made[key] = stack.enter_context(VendorBoard(chip, **options))
                except UnavailableError as reason:
                    pytest.skip(str(reason))
            return made[key]

        yield make


@pytest.fixture(scope="session")
def board_python(
    vendor_board: Callable[..., VendorBoard], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., BoardPython]]:
    """A function that gives a 32-bit Python on a board, by `VendorBoard`'s arguments.

    `board_python().call(function, *arguments)` runs a function there.
    """
    cache = tmp_path_factory.mktemp("board-cache")
    made: dict[VendorBoard, BoardPython] = {}

    def make(chip: str = "rk3588", **options: Any) -> BoardPython:
        board = vendor_board(chip, **options)
        if board not in made:
            try:
                made[board] = BoardPython(board, cache)
            except UnavailableError as reason:
                pytest.skip(str(reason))
        return made[board]

    yield make
    for python in made.values():
        python.close()
