"""What runs on a board: one session, opened once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ..errors import AnynpuError
from ..session import InferenceSession
from .stacks import Stack, together


class Board:
    """Ray's actor of a board; calls come on several threads.

    `model` is a path on the board, or a file's bytes.
    """

    def __init__(self, model: str | bytes, provider_options: Mapping[str, Any] | None) -> None:
        self._problem: AnynpuError | OSError | None = None
        try:
            self._session = InferenceSession(model, provider_options=provider_options)
        except (AnynpuError, OSError) as error:
            # An actor whose making fails dies, and its error comes as a text.
            self._problem = error

    def output_names(self) -> list[str]:
        """The model's outputs; raises what opening it raised."""
        self._check()
        return [output.name for output in self._session.get_outputs()]

    def run(self, stack: Stack, output_names: Sequence[str] | None) -> list[NDArray[Any]]:
        """Each output of the stack's frames as one array, whose first axis is the frames."""
        self._check()
        return together(list(self._session.map(stack.feeds(), output_names=output_names)))

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem
