"""Make the folder that holds the soft NPU's shared libraries, for programs that load them.

A folder has the shim under the vendor libraries' names, and the files that tell it which Python
environment to use. Folders live in the user's cache, one for each environment, architecture, chip
and version.
"""

from __future__ import annotations

import hashlib
import shutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path

from ..._version import __version__
from ...native.cache import cache_folder, is_whole, locked, made_folder, seal
from ...native.compiler import SOURCES, build_identity, compile_shared
from ...native.library import built_folders, is_of_these_sources, named_folder
from ...soc import DEFAULT, Soc, VipSoc
from ..libraries import Library, of_chip
from . import exports

CONFIGURATION = "anynpu-soft.conf"
BOOT_SCRIPT = "anynpu_soft_boot.py"
"""It gets the shim's table as TABLE, and the library's name as LIBRARY."""

_NEEDED = ("anynpu", "numpy", "onnx", "onnxruntime")

_BOOT_TEXT = """\
# Written by `anynpu soft lib`: gives the soft NPU's functions to the shim in this folder.
import signal, site, sys

EXPECTED = {cache_tag!r}
FOLDERS = {folders!r}
CHIP = {chip!r}


def main():
    if sys.implementation.cache_tag != EXPECTED:
        sys.stderr.write(
            "anynpu: this soft NPU was set up for Python {version}, the process runs Python "
            "%d.%d: install anynpu there, run its `anynpu soft lib` and load that library\\n"
            % sys.version_info[:2]
        )
        return
    for folder in FOLDERS:
        if folder not in sys.path:
            site.addsitedir(folder)
    try:
        from anynpu.soft.cabi.bootstrap import fill

        fill(TABLE, LIBRARY, CHIP)
    except Exception as error:
        sys.stderr.write(
            "anynpu: the soft NPU can't start: %s: %s; is anynpu[soft] still installed in one of "
            "%s?\\n" % (type(error).__name__, error, FOLDERS)
        )


main()
"""


def library_folder(soc: Soc | VipSoc | None = None) -> Path:
    """The folder with the libraries for a chip (None: Rockchip's, whatever a model is for).

    Builds it where it isn't there yet; raises `LibraryError` when it has to be compiled and can't
    be.
    """
    texts = {library: exports.source(library.name) for library in of_chip(soc or DEFAULT)}
    configuration = _configuration()
    boot = _boot_script(soc)
    own = (_shim_text(), configuration, boot, str(named_folder()), build_identity())
    parts = (__version__, *texts.values(), *own)
    identity = "\0".join(parts)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = cache_folder("soft") / f"{soc.name if soc else 'any'}-{digest}"
    if not _is_whole(folder, texts):
        with locked(made_folder("soft")):
            if not _is_whole(folder, texts):
                shutil.rmtree(folder, ignore_errors=True)
                _make(folder, texts, configuration, boot)
    return folder


def libraries(soc: Soc | VipSoc | None = None) -> tuple[Path, ...]:
    """The files in that folder that programs for the chip are linked with, as `library_folder`."""
    folder = library_folder(soc)
    return tuple(folder / library.file for library in of_chip(soc or DEFAULT))


def _is_whole(folder: Path, libraries: Iterable[Library]) -> bool:
    """Whether a folder is there with all that belongs to it, undamaged."""
    texts = (folder / CONFIGURATION, folder / BOOT_SCRIPT)
    return all(file.is_file() for file in texts) and all(
        is_whole(folder / library.file) for library in libraries
    )


def _make(folder: Path, texts: Mapping[Library, str], configuration: str, boot: str) -> None:
    """Fill a folder of its own and move it into place, so that nobody sees half of it."""
    work = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        (work / CONFIGURATION).write_text(configuration)
        (work / BOOT_SCRIPT).write_text(boot)
        for library, text in texts.items():
            _place_shim(work / library.file, library.name, text)
            seal(work / library.file)
            for other in library.also:
                # The loader knows the same file again, so that a process has it once.
                (work / other).symlink_to(library.file)
        work.chmod(0o755)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _place_shim(target: Path, library: str, text: str) -> None:
    """Copy the shim that came with the installation if it is this one, or compile it."""
    for folder in built_folders():
        built = folder / f"{library}.so"
        if _text(built.with_suffix(".h")) == text and (
            folder == named_folder() or is_of_these_sources(folder, "shim")
        ):
            shutil.copyfile(built, target)
            return
    header = target.with_suffix(".h")
    header.write_text(text)
    compile_shared(
        SOURCES / "shim.c",
        target,
        (
            f'-DANYNPU_EXPORTS="{header}"',
            f'-DANYNPU_LIBRARY="{library}"',
            f"-Wl,-soname,{target.name}",
            "-Wl,-z,nodelete",
        ),
    )
    header.unlink()


def _shim_text() -> str:
    return _text(SOURCES / "shim.c")


def _text(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def _configuration() -> str:
    return f"libpython={_libpython() or ''}\npython={sys.executable}\n"


def _libpython() -> str | None:
    """A shared library of this very Python version, where there is one."""
    name = sysconfig.get_config_var("INSTSONAME")
    if name and ".so" in name:
        folders = [sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix) / "lib"]
        multiarch = sysconfig.get_config_var("MULTIARCH")
        folders += [Path("/usr/lib") / multiarch] if multiarch else []
        for folder in folders:
            if folder and (Path(folder) / name).is_file():
                return str(Path(folder) / name)
    return find_library("python{}.{}{}".format(*sys.version_info[:2], sys.abiflags))


def _boot_script(soc: Soc | VipSoc | None) -> str:
    return _BOOT_TEXT.format(
        cache_tag=sys.implementation.cache_tag,
        version="{}.{}".format(*sys.version_info[:2]),
        folders=_module_folders(),
        chip=soc.name if soc else None,
    )


def _module_folders() -> list[str]:
    """Where this environment finds anynpu and what it needs, so that another interpreter can."""
    package_parent = str(Path(__file__).resolve().parents[3])
    needed = [spec.origin for name in _NEEDED if (spec := find_spec(name)) and spec.origin]
    user = site.getusersitepackages()
    # The user's own folder belongs to no program, but where what we need was installed there.
    own = [user] if any(Path(user) in Path(origin).parents for origin in needed) else []
    candidates = [*site.getsitepackages(), *own, package_parent]
    folders = [folder for folder in candidates if folder in sys.path or folder == package_parent]
    return list(dict.fromkeys(folders))
