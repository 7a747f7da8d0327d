"""The written header on the processors of boards: handles are 32 bits wide on 32-bit ARM."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from anynpu.rknn import abi, header

PROGRAMS = Path(__file__).with_name("programs")
ARCHITECTURES = {"arm": "arm-linux-gnueabihf", "aarch64": "aarch64-linux-gnu"}
LANGUAGES = {"c": ("gcc", "-std=c11"), "cc": ("g++", "-std=c++11")}
STRICT = ("-Wall", "-Wextra", "-Werror")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_handles_pass_whole(architecture: str, language: str, tmp_path: Path) -> None:
    """A client of the header's calls a runtime that knows only the processor's calling rules."""
    triplet = ARCHITECTURES[architecture]
    compiler, standard = LANGUAGES[language]
    emulator = shutil.which(f"qemu-{architecture}")
    if emulator is None or shutil.which(f"{triplet}-{compiler}") is None:
        pytest.skip(f"qemu-{architecture} or {triplet}-{compiler} is not installed")
    (tmp_path / "rknn_api.h").write_text(header.text())
    runtime = tmp_path / "libruntime.so"
    build = [f"{triplet}-gcc", *STRICT, "-shared", "-fPIC", "-o", str(runtime)]
    subprocess.run([*build, PROGRAMS / "handles_runtime.c"], check=True)
    source = tmp_path / f"handles.{language}"
    shutil.copyfile(PROGRAMS / "handles.c", source)
    program = tmp_path / "handles"
    build = [f"{triplet}-{compiler}", standard, *STRICT, f"-I{tmp_path}", "-o", str(program)]
    subprocess.run([*build, source, runtime, f"-Wl,-rpath,{tmp_path}"], check=True)
    result = subprocess.run([emulator, "-L", f"/usr/{triplet}", program], check=False, timeout=60)
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("machine", "largest_size", "kind"),
    [
        ("armv7l", 2**31 - 1, ctypes.c_uint32),
        ("armv8l", 2**31 - 1, ctypes.c_uint32),
        ("aarch64", 2**31 - 1, ctypes.c_uint32),
        ("aarch64", 2**63 - 1, ctypes.c_uint64),
        ("x86_64", 2**63 - 1, ctypes.c_uint64),
        ("x86_64", 2**31 - 1, ctypes.c_uint64),
        ("i686", 2**31 - 1, ctypes.c_uint64),
    ],
)
def test_a_handle_is_as_wide_as_the_process_has_it(
    machine: str, largest_size: int, kind: type
) -> None:
    """A kernel of 64 bits calls itself aarch64 in a process of 32 bits too."""
    assert abi.handle_type(machine, largest_size) is kind
