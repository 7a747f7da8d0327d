"""What `python -m tests.fuzz` tries, keeps and prints, with inputs that fail by their numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, random, sys
from tests.fuzz import __main__ as driver
from tests.fuzz.inputs import KINDS, Inputs

class Numbered(Inputs):
    def input(self, number):
        return f"file {number % 2}", str(number).encode()

def check(data):
    with open(sys.argv[-1] + "/tried", "ab") as tried:
        tried.write(data + b"\\n")
    if data == b"103":
        os.abort()
    assert data not in (b"105", b"107"), "not the same " + "x" * 500
    return "ran"

KINDS["tasks"] = Numbered(lambda source: ("", b""), check, lambda: None)
sys.exit(driver.main())
"""


def _drive(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Sanitizers take as much address space as there is.
    words = ("tasks", "--gigabytes", "0", *words, "--out", str(folder))
    command = [sys.executable, "-c", _PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_each_input_is_tried_once_and_failures_are_printed(tmp_path: Path) -> None:
    words = ("--seed", "100", "--inputs", "11", "--round", "4", "--processes", "2")
    ended = _drive(tmp_path, *words)
    assert ended.returncode == 1, ended.stderr
    assert sorted(map(int, (tmp_path / "tried").read_text().split())) == [*range(100, 111)]
    # Those that look alike once, whichever came first.
    assert ended.stdout.count("input 105, kept") + ended.stdout.count("input 107, kept") == 1
    assert "AssertionError: not the same xxx" in ended.stdout
    assert "file 1, input 103, kept as" in ended.stdout
    assert "Aborted" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) < 200
    assert "crashes 1, failures 2, hangs 0, inputs 11, leaks 0, ran 8" in ended.stdout
    kept = sorted(path.read_bytes() for path in tmp_path.glob("*.bin"))
    assert kept[0] == b"103"
    assert kept[1] in (b"105", b"107")


def test_a_number_repeats_an_input(tmp_path: Path) -> None:
    ended = _drive(tmp_path, "--seed", "107", "--inputs", "1")
    assert ended.returncode == 1
    assert (tmp_path / "tried").read_text() == "107\n"
    assert "file 1, input 107, kept as" in ended.stdout
