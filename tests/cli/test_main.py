"""The `anynpu` command as a whole: its help, pipes, what is missing."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from onnx import helper
from rich.console import Console

import anynpu
from anynpu.cli import main, output

from ..soft.formats.compiled_file import standard_file

COMMANDS = (
    "inspect", "run", "bench", "profile", "compare", "doctor", "build", "soft", "demo", "cache",
)  # fmt: skip


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    file = tmp_path / "net.rknn"
    file.write_bytes(standard_file())
    return file


def test_help_imports_no_command_and_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from anynpu.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'onnx', 'rich', 'anynpu.errors', 'anynpu.cli.inspect'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Run, measure and look into models" in done.stdout
    assert all(f"\n    {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: anynpu {command}" in capsys.readouterr().out


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anynpu", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"anynpu {anynpu.__version__}\n"


def test_help_keeps_to_the_terminal_s_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    purpose, _, examples = capsys.readouterr().out.partition("examples:\n")
    assert max(map(len, purpose.splitlines())) <= 70
    assert "  anynpu bench yolov5s.rknn\n  anynpu bench" in examples


def test_a_pipe_that_closes_early_is_no_failure(compiled: Path) -> None:
    shell = f"set -o pipefail; {sys.executable} -m anynpu.cli inspect {compiled} --layers | true"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("width", [40, 80])
def test_no_number_is_broken_on_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    terminal = Console(file=screen, force_terminal=True, color_system=None, width=width)
    monkeypatch.setattr(output, "console", lambda: terminal)
    headings = ("way", "runs a second", "least ms", "mean")
    row = ["a long name " * 4, "1822.7", "1003.217", "2740.353"]
    output.Report().table("", headings, [row], "-rrr")
    shown = screen.getvalue()
    assert all(number in shown for number in row[1:])
    assert max(map(len, shown.splitlines())) <= width
    assert "second" in shown


def test_a_piped_table_has_no_broken_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    from .. import models

    name = "a_name_" * 20
    file = tmp_path / "net.onnx"
    file.write_bytes(
        models.save(
            [helper.make_node("Relu", [name], ["y"])],
            [(name, models.FLOAT, (1, 3))],
            [("y", models.FLOAT, (1, 3))],
        )
    )
    assert main(["inspect", str(file)]) == 0
    assert f" {name} " in capsys.readouterr().out


def test_all_that_is_missing_is_named_at_once(compiled: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('flatbuffers', 'bson', 'rich'): sys.modules[name] = None\n"
        "from anynpu.cli import main\n"
        f"sys.exit(main(['inspect', {str(compiled)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1, "anynpu: flatbuffers, bson, rich aren't installed: pip install 'anynpu[cli]'\n",
    )  # fmt: skip
