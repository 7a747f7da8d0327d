"""An exception after any line of a request's filling leaves nothing that is taken for done.

Requests keep what was found out for arrays of one dtype. Signals' handlers raise between any two
lines; here a trace function does, after each line in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu
from anynpu import InferenceSession

from .. import models
from ..soft.viplite.client import relu

Trace = Callable[[FrameType, str, Any], Any]
BACKENDS = str(Path(anynpu.__file__).parent / "backends")
MOST_LINES = 2000


class Interrupted(BaseException):
    """What comes after a line."""


class AfterLine:
    """Raises `Interrupted` after a number of lines of the backends' code; says whether it did."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.has_come = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        """Watch what is called in the backends' files."""
        return self._line if frame.f_code.co_filename.startswith(BACKENDS) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        if event == "line" and not self.has_come:
            self._left -= 1
            if self._left < 0:
                self.has_come = True
                raise Interrupted
        return self._line


def is_interrupted(run: Callable[[], object], number: int) -> bool:
    """Run, with an exception after a number of lines; False if there are fewer."""
    trace = AfterLine(number)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
    return trace.has_come


def feed(session: InferenceSession, values: NDArray[Any]) -> NDArray[Any]:
    """The first output for some values."""
    return np.array(session.run(None, {session.get_inputs()[0].name: values})[0])


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (models.add_one, {}),
        (models.quantized, {}),
        (models.add_one, {"output_layout": "native"}),
        (relu, {}),
    ],
    ids=["general", "quantized", "zero copy", "viplite"],
)
def test_a_filling_that_was_torn_off_changes_no_later_run(
    model: Callable[[], bytes], options: dict[str, Any]
) -> None:
    with InferenceSession(model(), provider_options={"library": "soft", **options}) as session:
        shape = tuple(map(int, session.get_inputs()[0].shape))
        number = np.arange(np.prod(shape)).reshape(shape)
        given: list[NDArray[Any]] = [
            (number % 90 / 8).astype(np.float32),
            (number % 7).astype(np.uint8),
        ]
        expected = [feed(session, values) for values in given]
        for line in range(MOST_LINES):
            interrupted = [
                is_interrupted(lambda: feed(session, values), line)  # noqa: B023
                for values in reversed(given)
            ]
            for values, wanted in zip(given, expected, strict=True):
                np.testing.assert_array_equal(feed(session, values), wanted, f"after line {line}")
            if not any(interrupted):
                break
        assert 10 < line < MOST_LINES - 1
