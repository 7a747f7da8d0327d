"""`compat.install`: a package's name stands for anynpu, in a process or by PYTHONPATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anynpu import OptionError, compat
from anynpu.soft.build import BuildOptions, build_file

from .. import models

PROGRAM = """
import sys
{first}
from rknnlite.api import RKNNLite, rknn_runtime
from rknnlite.api.rknn_runtime import RKNNOutput
import numpy as np
rknn = RKNNLite()
assert rknn.rknn_runtime is None
assert rknn.load_rknn(sys.argv[1]) == rknn.init_runtime() == 0
assert rknn.rknn_runtime.get_in_out_num() == (1, 1)
attr = rknn.rknn_runtime.get_tensor_attr(0, is_output=True)
assert (attr.name, tuple(attr.dims[:attr.n_dims])) == (b"y", (1, 3, 4, 5))
total = rknn.inference([np.ones((1, 4, 5, 3), np.uint8)])[0].sum()
print(total, rknn_runtime.RKNNOutput is RKNNOutput)
rknn.release()
"""


def run(
    model: str, first: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first), model],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def model(tmp_path: Path) -> str:
    build_file(models.add_one(), tmp_path / "model.rknn", BuildOptions())
    return str(tmp_path / "model.rknn")


def test_in_the_program(model: str) -> None:
    done = run(model, "import anynpu.compat; anynpu.compat.install('rknnlite')")
    assert (done.stdout, done.stderr) == ("120.0 True\n", "")


def test_by_the_search_path(model: str) -> None:
    folder = subprocess.run(
        [sys.executable, "-m", "anynpu.compat", "rknnlite"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    done = run(model, environment={"PYTHONPATH": folder})
    assert (done.stdout, done.stderr) == ("120.0 True\n", "")


def test_an_original_that_is_in_use_is_left_alone(model: str, tmp_path: Path) -> None:
    (tmp_path / "rknnlite").mkdir()
    (tmp_path / "rknnlite" / "__init__.py").touch()
    first = "import rknnlite, anynpu.compat; anynpu.compat.install('rknnlite')"
    done = run(model, first, {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "call install before that" in done.stderr


def test_other_names_are_refused() -> None:
    with pytest.raises(OptionError, match="can stand in for rknnlite"):
        compat.install("tflite_runtime")


def test_the_log_s_level(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    from anynpu.compat.rknnlite import RKNNLite

    rknn = RKNNLite()
    rknn.rknn_log.logger.setLevel("CRITICAL")
    assert rknn.load_rknn("/no/such/model.rknn") == -1
    assert capfd.readouterr().err == ""
    rknn.rknn_log.logger.setLevel("ERROR")
    assert rknn.load_rknn("/no/such/model.rknn") == -1
    assert capfd.readouterr().err.startswith("E RKNNLite.load_rknn: ")
