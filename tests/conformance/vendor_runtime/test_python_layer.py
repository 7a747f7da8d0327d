"""The Python layer on the vendor's library, beside the same program on the soft NPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from .board import BoardPython
from .python_programs import models


def test_the_library_is_the_vendors(
    board_python: Callable[..., BoardPython], compiled_sample: Callable[[str], Path]
) -> None:
    outcome = board_python().call(models.describe, compiled_sample("rk3588/conv3x3_i8"))
    assert outcome.error == ""
    assert outcome.text("inputs") == str(
        models.describe(str(compiled_sample("rk3588/conv3x3_i8")))["inputs"]
    )
    assert outcome.complaints == []


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_model_computes_the_same(
    board_python: Callable[..., BoardPython], compiled_sample: Callable[[str], Path], dtype: str
) -> None:
    file = compiled_sample("rk3588/smallcnn_i8")
    outcome = board_python().call(models.run, file, dtype)
    assert outcome.error == ""
    for name, expected in models.run(str(file), dtype).items():
        np.testing.assert_array_equal(outcome.values[name], expected, err_msg=name)
