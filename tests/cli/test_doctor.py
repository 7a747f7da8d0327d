"""`anynpu doctor`: this machine, and boards made of files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from anynpu.cli import main
from anynpu.cli.finding import Finding, State
from anynpu.cli.findings import examine
from anynpu.rknn.model_file import write_frame


@pytest.fixture
def board(tmp_path: Path) -> Path:
    files = {
        "proc/device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0",
        "proc/device-tree/model": "Radxa ROCK 5B\0",
        "sys/kernel/debug/rknpu/version": "RKNPU driver: v0.9.8\n",
        "sys/kernel/debug/rknpu/load": "NPU load:  Core0:  3%, Core1:  0%, Core2:  0%,\n",
        "sys/class/devfreq/fdab0000.npu/cur_freq": "300000000\n",
        "sys/class/devfreq/fdab0000.npu/max_freq": "1000000000\n",
        "sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand\n",
        "dev/dri/renderD129": "",
        "usr/lib/librknnrt.so": "\0librknnrt version: 2.3.2 (429f97ae6b@2025-04-09T09:09:27)\0",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def found(root: Path, model: Path | None = None) -> dict[str, Finding]:
    findings = examine(root, model=str(model) if model else None)
    return {finding.subject: finding for finding in findings}


def compiled(folder: Path, chip: str, toolkit: str) -> Path:
    """The frame of a compiled file, which has what its versions are."""
    file = folder / "model.rknn"
    file.write_bytes(write_frame(b"", {"target_platform": [chip], "version": toolkit}))
    return file


def says_version(board: Path, version: str) -> None:
    text = f"\0librknnrt version: {version} (429f97ae6b@2025-04-09T09:09:27)\0"
    (board / "usr/lib/librknnrt.so").write_text(text)


@pytest.mark.parametrize(
    ("library", "toolkit", "state", "word"),
    [
        ("2.3.2", "2.3.2", State.FINE, "they go together"),
        ("2.3.2", "1.6.0", State.FINE, "they go together"),
        ("2.2.0", "2.5.0", State.NOTE, "may be missing"),
        ("1.5.0", "2.3.2", State.WRONG, "Invalid RKNN model version 6"),
    ],
)
def test_a_model_against_the_library(
    board: Path, library: str, toolkit: str, state: State, word: str
) -> None:
    says_version(board, library)
    finding = found(board, compiled(board, "rk3588", toolkit))["model and library"]
    assert finding.state is state
    assert word in finding.found
    assert f"library {library}, toolkit {toolkit}" in finding.found


def test_a_model_against_the_chip(board: Path) -> None:
    assert found(board, compiled(board, "rk3588", "2.3.2"))["model and chip"].state is State.FINE
    other = found(board, compiled(board, "rk3566", "2.3.2"))["model and chip"]
    assert other.state is State.WRONG
    assert other.found == "the model is for rk3566, the chip is rk3588"
    assert "target_platform='rk3588'" in other.advice
    (board / "model.rknn").write_bytes(b"RKNN")
    assert found(board, board / "model.rknn")["model"].state is State.WRONG


@pytest.mark.parametrize(
    ("driver", "state"), [("0.4.2", State.WRONG), ("0.8.2", State.NOTE), ("0.9.8", None)]
)
def test_a_driver_against_the_library(board: Path, driver: str, state: State | None) -> None:
    (board / "sys/kernel/debug/rknpu/version").write_text(f"RKNPU driver: v{driver}\n")
    finding = found(board).get("driver and library")
    assert (finding and finding.state) is state


def test_a_library_of_another_chip(board: Path) -> None:
    (board / "usr/lib/librknnrt.so").rename(board / "usr/lib/librknnmrt.so")
    finding = found(board)["chip and library"]
    assert finding.state is State.WRONG
    assert finding.found == "rk3588 takes librknnrt.so; found librknnmrt.so"


def test_this_machine_has_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    assert main(["doctor", "--report", str(report)]) == 0
    printed, said = capsys.readouterr().out.rsplit("written to ", 1)
    assert (report.read_text(), said) == (printed, f"{report}\n")
    assert all(re.match(r"(fine |note ) [^:]+: ", line) for line in printed.splitlines())
    assert "soft NPU: computes" in printed
    assert main(["doctor", "--json"]) == 0
    assert {"subject", "state", "found", "advice"} == set(json.loads(capsys.readouterr().out)[0])


def test_a_board_in_order(board: Path) -> None:
    findings = found(board)
    assert findings["chip"].found == "rk3588 (Radxa ROCK 5B)"
    assert findings["driver"].found == "rknpu 0.9.8"
    assert findings["load"].found.startswith("NPU load")
    assert findings["library"].found.endswith("2.3.2 (429f97ae6b@2025-04-09T09:09:27)")
    assert findings["device node"].found == "/dev/dri/renderD129 may be read and written"
    assert findings["frequency"].found == "300 MHz, governor rknpu_ondemand, of at most 1000 MHz"
    assert "echo performance" in findings["frequency"].advice
    assert not [each for each in findings.values() if each.state is State.WRONG]


def test_a_board_without_driver_and_library(board: Path) -> None:
    (board / "dev/dri/renderD129").unlink()
    (board / "usr/lib/librknnrt.so").unlink()
    findings = found(board)
    assert findings["device nodes"].state is State.WRONG
    assert "use the board vendor's image" in findings["device nodes"].advice
    assert "ANYNPU_RKNN_LIBRARY" in findings["library"].advice


def test_a_container_without_the_device(board: Path) -> None:
    (board / ".dockerenv").touch()
    (board / "dev/dri/renderD129").unlink()
    assert "--device /dev/dri" in found(board)["device nodes"].advice
