"""Devices that compute nothing, built from C on demand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from anynpu.rknn import header as rknn_header
from anynpu.viplite import header as viplite_header

_SOURCES = Path(__file__).parent
RKNN_MODEL = b"RKNN" + bytes(100)
VIPLITE_MODEL = b"VPMN" + bytes(100)
"""What is loaded there: only the first bytes are looked at."""

_KINDS = {
    "librknnrt.so": ("rknn.c", "rknn_api.h", rknn_header.text),
    "libNBGlinker.so": ("viplite.c", "vip_lite.h", viplite_header.text),
}


def build(name: str, folder: Path) -> Path:
    """The null device as a vendor's library of that name, in a folder.

    Raises RuntimeError without a C compiler.
    """
    source, header, text = _KINDS[name]
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the null devices need a C compiler")
    (folder / header).write_text(text())
    library = folder / name
    command = [compiler, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror"]
    command += ["-O2", "-shared", "-fPIC", f"-I{folder}", f"-I{_SOURCES}", "-o", str(library)]
    subprocess.run([*command, str(_SOURCES / source), "-lpthread"], check=True)
    return library
