"""What a board's kernel shows of its NPU, from files as boards have them."""

from __future__ import annotations

from pathlib import Path

from anynpu import npu_state


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_three_cores(tmp_path: Path) -> None:
    write(
        tmp_path, "sys/kernel/debug/rknpu/load", "NPU load:  Core0: 12%, Core1:  0%, Core2: 99%,\n"
    )
    write(tmp_path, "sys/class/devfreq/fdab0000.npu/cur_freq", "1000000000\n")
    write(tmp_path, "sys/class/thermal/thermal_zone0/type", "soc-thermal\n")
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "50000\n")
    write(tmp_path, "sys/class/thermal/thermal_zone6/type", "npu-thermal\n")
    write(tmp_path, "sys/class/thermal/thermal_zone6/temp", "43461\n")
    state = npu_state.read(tmp_path)
    assert state == npu_state.NpuState({"0": 0.12, "1": 0.0, "2": 0.99}, 1e9, 43.461)


def test_one_core(tmp_path: Path) -> None:
    write(tmp_path, "sys/kernel/debug/rknpu/load", "NPU load:  37%\n")
    assert npu_state.read(tmp_path) == npu_state.NpuState({"0": 0.37})


def test_no_board(tmp_path: Path) -> None:
    assert npu_state.read(tmp_path) == npu_state.NpuState()
