"""What is known of the chips."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import anynpu
from anynpu import soc
from anynpu.tensor import DType


@pytest.mark.parametrize(
    ("name", "found"),
    [("rk3588", "rk3588"), ("RK3588S", "rk3588"), (" rk3566 ", "rk3566"), ("rv1106g", "rv1106")],
)
def test_names(name: str, found: str) -> None:
    assert soc.find(name).name == found


@pytest.mark.parametrize("name", ["", "rk", "rk35", "rk3588-7", "rk35881", "bcm2712"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(anynpu.OptionError, match="rk3562, rk3566"):
        soc.find(name)


@pytest.mark.parametrize(
    ("name", "int8", "float16"),
    [("rk3588", 16, 8), ("rk3576", 16, 8), ("rk3562", 16, 8), ("rk3566", 8, 4), ("rv1106", 16, 8)],
)
def test_channel_blocks(name: str, int8: int, float16: int) -> None:
    chip = soc.find(name)
    assert chip.channel_block(DType.INT8) == int8
    assert chip.channel_block(DType.FLOAT16) == float16


def test_row_strides() -> None:
    assert soc.find("rk3588").width_stride(7, DType.FLOAT16) == 8
    assert soc.find("rk3588").width_stride(416, DType.INT8) == 416
    assert soc.find("rk3566").width_stride(33, DType.INT8) == 40


def test_cores() -> None:
    assert [soc.find(name).cores for name in ("rk3588", "rk3576", "rk3562", "rv1103")] == [
        3,
        2,
        1,
        1,
    ]


def test_which_models_a_chip_runs() -> None:
    pairs = {frozenset(("rk3566", "rk3568")), frozenset(("rv1103", "rv1106"))}
    for one in soc.SOCS.values():
        for other in soc.SOCS.values():
            same = one is other or frozenset((one.name, other.name)) in pairs
            assert one.runs_models_of(other) == same


def test_the_device_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "compatible"
    monkeypatch.setattr(soc, "DEVICE_TREE", file)
    assert soc.detect() is None
    file.write_bytes(b"radxa,rock-5b\0rockchip,rk3588\0")
    found = soc.detect()
    assert found is not None
    assert found.name == "rk3588"
    file.write_bytes(b"raspberrypi,5-model-b\0brcm,bcm2712\0\xff\xfe")
    assert soc.detect() is None


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert soc.chosen() is None
    monkeypatch.setenv("ANYNPU_SOC", "rk3576")
    assert soc.chosen() is soc.find("rk3576")


def test_a_chip_for_some_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this thread, before the environment's."""
    monkeypatch.setenv(soc.ENVIRONMENT_VARIABLE, "rk3588")
    seen: list[soc.Soc | None] = []
    with soc.using(soc.SOCS["rk3576"]):
        with soc.using(soc.SOCS["rk3562"]):
            assert soc.chosen() is soc.SOCS["rk3562"]
        assert soc.chosen() is soc.SOCS["rk3576"]
        thread = threading.Thread(target=lambda: seen.append(soc.chosen()))
        thread.start()
        thread.join()
    assert soc.chosen() is soc.SOCS["rk3588"]
    assert seen == [soc.SOCS["rk3588"]]


def test_allwinner_s_chips() -> None:
    assert soc.find_vip("T527").target == 0x10000016
    assert soc.find_any("a733").name == "a733"
    assert soc.find_any("rk3588") is soc.find("rk3588")
    assert {chip.npu_version for chip in soc.VIP_SOCS.values()} == {"v1", "v2", "v3"}


def test_a_chip_of_the_other_vendor() -> None:
    with pytest.raises(anynpu.OptionError, match=r"a733 is a chip of Allwinner's; .* rk3588"):
        soc.find("a733")
    with pytest.raises(anynpu.OptionError, match=r"rk3588 is a Rockchip; .* t527"):
        soc.find_vip("rk3588")


def test_the_environment_names_allwinner_s_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    assert soc.chosen_vip() is None
    monkeypatch.setenv("ANYNPU_SOC", "t527")
    assert soc.chosen_vip() is soc.find_vip("t527")
    with pytest.raises(anynpu.OptionError, match="Allwinner"):
        soc.chosen()
