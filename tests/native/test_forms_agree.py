"""Forms of int8 convolutions and products that this processor may lack give plain C's bytes.

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
SIMDE = Path("/usr/include/simde/x86/avx512.h")
CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

pytestmark = pytest.mark.parametrize("name", ["forms_agree", "products_agree"])


def _compile(command: list[str], name: str, folder: Path, *options: str) -> Path:
    output = folder / name
    flags = [flag for flag in compiler.flags() if flag not in ("-shared", "-fPIC")]
    sources = str(compiler.SOURCES)
    subprocess.run(
        [*command, *flags, "-O1", *options, "-I", sources, "-o", str(output),
         str(HERE / f"{name}.c"), "-lm", "-lpthread"],
        check=True,
    )  # fmt: skip
    return output


def _forms(*command: str) -> list[str]:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


def test_those_of_this_processor(name: str, tmp_path: Path) -> None:
    program = _compile(compiler.find_compiler(), name, tmp_path)
    assert _forms(str(program)) == list(forms.available())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="SIMDe is used on x86-64 here")
@pytest.mark.skipif(not SIMDE.is_file(), reason="needs SIMDe: apt install libsimde-dev")
@pytest.mark.skipif("avx2" not in forms.available(), reason="this processor has no AVX2")
def test_those_with_vnni(name: str, tmp_path: Path) -> None:
    header = f'-DANYNPU_EMULATED="{HERE / "emulated.h"}"'
    vectors = "-mavx2", "-mfma", "-mf16c", "-Wno-psabi"
    program = _compile(compiler.find_compiler(), name, tmp_path, *vectors, header)
    assert _forms(str(program)) == ["plain", "avx2", "avx_vnni", "avx512_vnni"]


@pytest.mark.skipif(shutil.which(EMULATOR) is None, reason="needs QEMU: apt install qemu-user")
@pytest.mark.skipif(
    shutil.which(CROSS_COMPILER) is None,
    reason="needs a cross compiler: apt install gcc-aarch64-linux-gnu",
)
def test_those_of_aarch64(name: str, tmp_path: Path) -> None:
    program = _compile([CROSS_COMPILER], name, tmp_path, "-static")
    assert _forms(EMULATOR, "-cpu", "max", str(program)) == ["plain", "dotprod", "i8mm"]
    assert _forms(EMULATOR, "-cpu", "cortex-a53", str(program)) == ["plain"]
