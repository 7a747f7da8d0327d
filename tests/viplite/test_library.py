"""Finding and loading VIPLite's libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import anynpu
from anynpu import soc
from anynpu.rknn import library as rknn_library
from anynpu.soft.cabi.build import library_folder
from anynpu.viplite import library
from anynpu.viplite.abi import FUNCTIONS, Interface
from anynpu.viplite.library import load
from anynpu.viplite.network import Network

from .. import models

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, c_compiler: str) -> Build:
    """A function that builds a library of one C text, and gives its path."""

    def make(text: str, name: str = "libVIPlite.so", folder: str = "lib") -> Path:
        target = tmp_path / folder / name
        target.parent.mkdir(exist_ok=True)
        source = target.with_suffix(".c")
        source.write_text(text)
        subprocess.run([c_compiler, "-shared", "-fPIC", "-o", target, source], check=True)
        return target

    return make


def versioned(version: int) -> str:
    return (
        f"unsigned vip_get_version(void) {{ return {version}; }}\n"
        "int vip_init(void) { return -2; }\nint vip_destroy(void) { return 0; }\n"
    )


def test_soft_by_name() -> None:
    assert load("soft").is_soft
    assert load("soft") is load()
    assert load(load("soft")) is load("soft")
    assert repr(load("soft")) == "<VipliteLibrary the soft NPU>"


@pytest.mark.parametrize(
    ("chip", "interface"),
    [("t527", Interface.V1_13), ("a733", Interface.V2_0), ("v853", Interface.V85X),
     ("T536", Interface.V2_0)],
)  # fmt: skip
def test_the_chip_decides_the_soft_interface(
    chip: str, interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", chip)
    assert load("soft").interface is interface
    assert Interface.of_version(load("soft").version) is interface
    monkeypatch.setenv("ANYNPU_SOC", "rk3588")
    with pytest.raises(anynpu.OptionError, match="rk3588"):
        load("soft")


@pytest.mark.parametrize("chip", ["t527", "a733", "v853"])
def test_the_soft_shared_libraries_are_known(chip: str) -> None:
    folder = library_folder(soc.find_vip(chip))
    found = next(
        path for path in folder.iterdir() if path.name in ("libVIPlite.so", "libNBGlinker.so")
    )
    loaded = load(found)
    assert loaded.is_soft
    assert chip in loaded.interface.chips
    exported = {name for name, f in FUNCTIONS.items() if loaded.interface.has(name)}
    assert {name for name in exported if loaded.has(name)} == exported


@pytest.mark.parametrize(
    ("version", "label", "text"),
    [(0x00020003, "2.0", "2.0.3"), (0x00010D00, "1.13", "1.13.0"), (0x00010302, "V85x", "1.3.2")],
)
def test_versions(build: Build, version: int, label: str, text: str) -> None:
    found = load(build(versioned(version)))
    assert (found.interface.label, found.version, found.version_text) == (label, version, text)
    assert not found.is_soft
    assert not found.has("vip_run_network")
    with pytest.raises(anynpu.MissingFunctionError, match=r"no vip_set_log_path.*version 1\.13"):
        _ = found.vip_set_log_path
    with pytest.raises(AttributeError, match="the VIPLite API has no function 'vip_fly'"):
        _ = found.vip_fly


def test_a_later_interface_is_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(versioned(0x00020200))
    message = r"is VIPLite 2\.2\.0 \(0x00020200\); anynpu knows the interfaces V85x, 1\.13, 2\.0"
    with pytest.raises(anynpu.LibraryError, match=message):
        load(path)
    # It isn't passed over in silence where it is found by the search either.
    monkeypatch.setenv("ANYNPU_DEVICE", "board")
    monkeypatch.setattr(library, "_FOLDERS", (path.parent,))
    with pytest.raises(anynpu.LibraryError, match=message):
        load()


def test_the_interface_may_be_named(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which versions the old libraries have isn't on record."""
    monkeypatch.setenv("ANYNPU_VIPLITE_INTERFACE", "v85x")
    path = build(versioned(0x12345678))
    assert load(path).interface is Interface.V85X
    monkeypatch.setenv("ANYNPU_VIPLITE_INTERFACE", "3")
    with pytest.raises(anynpu.OptionError, match=r"is '3'; it may be V85x, 1\.13, 2\.0"):
        load(build(versioned(0x12345678), folder="other"))


def test_another_vendor_s_library_is_refused() -> None:
    with pytest.raises(anynpu.OptionError, match="isn't a library for the VIPLite API"):
        load(rknn_library.load("soft"))  # type: ignore[arg-type]
    with pytest.raises(anynpu.OptionError, match="isn't a library for the RKNN API"):
        anynpu.Model(models.add_one(), library=load("soft"))


def test_another_library_is_refused(build: Build) -> None:
    with pytest.raises(anynpu.LibraryError, match="no vip_get_version: it isn't a VIPLite"):
        load(build("int other(void) { return 0; }\n"))


def test_what_a_library_needs_is_loaded_first(build: Build) -> None:
    """Its symbols are for all to see, since the vendor's library doesn't say that it needs it."""
    text = "unsigned hal_version(void);\nunsigned vip_get_version(void) { return hal_version(); }\n"
    path = build(text, "libNBGlinker.so")
    with pytest.raises(anynpu.LibraryNotFoundError, match="hal_version"):
        load(path)
    build("unsigned hal_version(void) { return 0x20003; }\n", "libVIPhal.so")
    assert load(path).interface is Interface.V2_0


def test_a_damaged_needed_library_is_named(build: Build) -> None:
    path = build(versioned(0x00010D00))
    path.with_name("libVIPuser.so").write_text("not a library")
    with pytest.raises(anynpu.LibraryNotFoundError, match=r"libVIPuser\.so"):
        load(path)


def test_the_environment_and_the_folders(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(versioned(0x00010D00))
    monkeypatch.setenv("ANYNPU_VIPLITE_LIBRARY", str(path))
    for device in ("auto", "board"):
        monkeypatch.setenv("ANYNPU_DEVICE", device)
        assert load().path == str(path)
    monkeypatch.setenv("ANYNPU_DEVICE", "soft")
    assert load().is_soft
    monkeypatch.delenv("ANYNPU_VIPLITE_LIBRARY")
    monkeypatch.setenv("ANYNPU_DEVICE", "board")
    monkeypatch.setattr(library, "_FOLDERS", (path.parent,))
    assert load().path == str(path)


def test_a_board_without_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "board")
    monkeypatch.setattr(library, "_FOLDERS", (tmp_path,))
    with pytest.raises(anynpu.LibraryNotFoundError, match=r"ANYNPU_VIPLITE_LIBRARY\. Tried") as e:
        load()
    tried = [what for what, _ in e.value.attempts]
    assert tried == [
        "libNBGlinker.so", "libVIPlite.so",
        str(tmp_path / "libNBGlinker.so"), str(tmp_path / "libVIPlite.so"),
    ]  # fmt: skip


def test_falling_back_warns_once_a_process() -> None:
    program = (
        "import warnings; warnings.simplefilter('always')\n"
        "from anynpu.viplite.library import load\n"
        "load(); load(); load()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr.count("no Allwinner runtime library was found") == 1


def test_a_missing_kernel_driver_is_named(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = build(versioned(0x00010D00))
    with pytest.raises(anynpu.DeviceError, match="VIP_ERROR_IO") as caught:
        Network(b"VPMN", library=path)
    assert "neither /dev/vipcore nor /dev/galcore" in str(caught.value)
    assert str(path) in str(caught.value)
    (tmp_path / "vipcore").touch()
    monkeypatch.setattr(library, "KERNEL_NODES", (tmp_path / "vipcore",))
    with pytest.raises(anynpu.DeviceError) as caught:
        Network(b"VPMN", library=path)
    assert "kernel driver" not in str(caught.value)
