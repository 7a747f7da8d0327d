"""Forms of the int8 kernels that this processor may lack give what plain C gives, byte for byte.

AVX-VNNI and AVX-512 VNNI run as SIMDe's functions, those of aarch64 in QEMU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from anynpu.native import compiler, forms

HERE = Path(__file__).parent
PROGRAM = HERE / "forms_agree.c"
SIMDE = Path("/usr/include/simde/x86/avx512.h")
CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


def _compile(command: list[str], output: Path, *options: str) -> None:
    flags = [flag for flag in compiler.flags() if flag not in ("-shared", "-fPIC")]
    sources = str(compiler.SOURCES)
    subprocess.run(
        [*command, *flags, "-O1", *options, "-I", sources, "-o", str(output), str(PROGRAM), "-lm"],
        check=True,
    )


def _forms(*command: str) -> list[str]:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


def test_those_of_this_processor(tmp_path: Path) -> None:
    program = tmp_path / "forms_agree"
    _compile(compiler.find_compiler(), program)
    assert _forms(str(program)) == list(forms.available())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="SIMDe is used on x86-64 here")
@pytest.mark.skipif(not SIMDE.is_file(), reason="needs SIMDe: apt install libsimde-dev")
@pytest.mark.skipif("avx2" not in forms.available(), reason="this processor has no AVX2")
def test_those_with_vnni(tmp_path: Path) -> None:
    program = tmp_path / "forms_agree"
    header = f'-DANYNPU_EMULATED="{HERE / "emulated.h"}"'
    _compile(compiler.find_compiler(), program, "-mavx2", "-mfma", "-mf16c", "-Wno-psabi", header)
    assert _forms(str(program)) == ["plain", "avx2", "avx_vnni", "avx512_vnni"]


@pytest.mark.skipif(shutil.which(EMULATOR) is None, reason="needs QEMU: apt install qemu-user")
@pytest.mark.skipif(
    shutil.which(CROSS_COMPILER) is None,
    reason="needs a cross compiler: apt install gcc-aarch64-linux-gnu",
)
def test_those_of_aarch64(tmp_path: Path) -> None:
    program = tmp_path / "forms_agree"
    _compile([CROSS_COMPILER], program, "-static")
    assert _forms(EMULATOR, "-cpu", "max", str(program)) == ["plain", "dotprod", "i8mm"]
    assert _forms(EMULATOR, "-cpu", "cortex-a53", str(program)) == ["plain"]
