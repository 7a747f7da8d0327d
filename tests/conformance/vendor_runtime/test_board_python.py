"""Functions that run in a 32-bit Python on a board: what comes back, whatever they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from .board import BoardPython
from .python_programs import models, outcomes

Board = Callable[..., BoardPython]


def test_a_model_runs(board_python: Board, compiled_sample: Callable[[str], Path]) -> None:
    file = compiled_sample("rk3588/conv3x3_fp16")
    outcome = board_python().call(models.run, file, "float32")
    assert (outcome.error, outcome.complaints, outcome.status) == ("", [], 0)
    for name, expected in models.run(str(file), "float32").items():
        np.testing.assert_array_equal(outcome.values[name], expected, err_msg=name)


def test_what_comes_back(board_python: Board) -> None:
    outcome = board_python().call(outcomes.tell, [1, 2], environment={"ANYNPU_TOLD": "so"})
    assert outcome.values["numbers"].tolist() == [1, 2]
    assert outcome.text("machine") == "so 32"
    assert outcome.log == ("on one stream", "on the other")


def test_exceptions_and_ends_of_the_process(board_python: Board) -> None:
    python = board_python()
    outcome = python.call(outcomes.fail)
    assert (outcome.error, outcome.status) == ("ValueError: no such thing", 1)
    outcome = python.call(outcomes.abort)
    assert (outcome.error, outcome.status) == ("the process ended with -6", -6)
    outcome = python.call(outcomes.sleep, seconds=0.2)
    assert outcome.status == -9
    assert python.call(outcomes.tell, []).error == ""
