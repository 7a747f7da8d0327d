"""`anynpu doctor`: this machine, and boards made of files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from anynpu.cli import main
from anynpu.cli.findings import Finding, State, examine


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


def found(root: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in examine(root)}


def test_this_machine_has_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    assert main(["doctor", "--report", str(report)]) == 0
    printed = capsys.readouterr().out
    assert report.read_text() == printed
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
