"""What `anynpu doctor` looks at: this package, the board, its driver, its library.

A machine without an NPU is no fault: then the soft NPU is what there is.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .. import soc as socs
from .._version import __version__
from ..errors import AnynpuError, OptionError
from . import extras, versions
from .finding import Finding, fine, note, wrong

_ROOT = Path("/")
_LIBRARIES = ("usr/lib", "usr/lib64", "lib", "vendor/lib64", "usr/local/lib")
_LIBRARY_NAMES = ("librknnrt.so", "librknnmrt.so", "libVIPlite.so", "libNBGlinker.so")


def examine(root: Path = _ROOT, model: str | None = None) -> list[Finding]:
    """All findings about a machine whose files are under a folder, and about a model on it."""
    compatible = _compatible(root)
    board = versions.Board(_chip(compatible), _driver_version(root), _libraries(root))
    return [
        *_package(),
        *_board(root, compatible, board),
        *_library(board),
        *versions.examine_board(board),
        *(versions.examine_model(board, model) if model else ()),
        *_soft_npu(),
    ]


# -------------------------------------------------------------------------------- this package


def _package() -> Iterator[Finding]:
    version = platform.python_version()
    yield fine("anynpu", f"{__version__} on Python {version}, {platform.machine()}")
    yield _numpy()
    for extra, needs in (
        ("formats", ("formats",)),
        ("cli", ("tables", "pictures")),
        ("soft", ("formats", "soft")),
        ("plot", ("graph",)),
        ("vision", ("drawing", "video")),
        ("serve", ("serve",)),
    ):
        modules, _ = extras.missing(needs)
        name = f"anynpu[{extra}]"
        if modules:
            yield note(
                name, f"{', '.join(modules)} missing", f"pip install '{name}' if you need it"
            )
        else:
            yield fine(name, "installed")
    yield _helpers()


def _numpy() -> Finding:
    try:
        import numpy as np
    except ImportError as error:
        return wrong("NumPy", str(error), "pip install numpy")
    return fine("NumPy", np.__version__)


def _helpers() -> Finding:
    from ..native import forms, kernels

    if not kernels.is_built():
        return note(
            "C helpers", "none: NumPy and Python threads do the work, more slowly",
            "install a C compiler (apt install gcc), or a wheel of anynpu for this machine",
        )  # fmt: skip
    has, form = _instructions(), forms.running()
    if form == forms.PLAIN and "AVX2" in has:
        return note(
            "C helpers", f"kernels run as {form}, several times slower; the processor has {has}",
            f"unset {forms.ENVIRONMENT_VARIABLE}, or install a wheel of anynpu",
        )  # fmt: skip
    return fine(
        "C helpers", f"built; kernels run as {form}" + (f", the processor has {has}" if has else "")
    )


def _instructions(root: Path = _ROOT) -> str:
    """The vector instructions that kernels may use, by the kernel's list, where it can be read."""
    words = set(_read(root / "proc/cpuinfo").split())
    if not words:
        return ""
    names = {
        "avx512_vnni": "AVX-512 VNNI", "avx_vnni": "AVX-VNNI", "avx512f": "AVX-512", "avx2": "AVX2",
        "i8mm": "NEON with int8 matrices", "asimddp": "NEON with dot products",
        "asimd": "NEON", "neon": "NEON",
    }  # fmt: skip
    found = list(dict.fromkeys(name for flag, name in names.items() if flag in words))
    return ", ".join(found) or "no vector instructions that they use: scalar code"


# ----------------------------------------------------------------------------------- the board


def _board(root: Path, compatible: Iterable[str], board: versions.Board) -> Iterator[Finding]:
    if not any(compatible):
        yield note("chip", "no device tree", "this is no board: models run on the soft NPU")
        return
    chip = board.chip
    if chip is None:
        yield note("chip", f"{', '.join(filter(None, compatible))}, no NPU that anynpu knows")
        return
    yield fine("chip", f"{chip.name} ({_read(root / 'proc/device-tree/model').strip(chr(0))})")
    yield from _nodes(root)
    yield _driver(board)
    yield from _cores(root)
    yield from _frequency(root)


def _compatible(root: Path) -> list[str]:
    return _read(root / "proc/device-tree/compatible").split("\0")


def _chip(compatible: Iterable[str]) -> socs.Soc | socs.VipSoc | None:
    for entry in compatible:
        try:
            return socs.find_any(entry.partition(",")[2])
        except OptionError:
            continue
    return None


def _nodes(root: Path) -> Iterator[Finding]:
    """The device files through which a runtime reaches the driver."""
    nodes = [
        *sorted(root.glob("dev/dri/renderD*")),
        *root.glob("dev/rknpu"),
        *root.glob("dev/vipcore"),
    ]
    container = _container(root)
    if not nodes:
        where = "this container" if container else "/dev"
        advice = (
            "start the container with --device /dev/dri --security-opt systempaths=unconfined"
            if container
            else "the kernel has no NPU driver: use the board vendor's image"
        )
        yield wrong("device nodes", f"no /dev/dri/renderD*, rknpu or vipcore in {where}", advice)
        return
    for node in nodes:
        name = f"/{node.relative_to(root)}"
        if os.access(node, os.R_OK | os.W_OK):
            yield fine("device node", f"{name} may be read and written")
        else:
            yield wrong(
                "device node", f"{name} may not be opened by this user",
                "sudo usermod -aG render,video $USER, and log in again",
            )  # fmt: skip
    if container and not (root / "proc/device-tree").exists():
        yield wrong(
            "container",
            "no /proc/device-tree in it",
            "add -v /proc/device-tree:/proc/device-tree:ro",
        )


def _container(root: Path) -> bool:
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()


def _driver(board: versions.Board) -> Finding:
    if board.driver is None:
        return note("driver", "its version can't be read", "sudo anynpu doctor reads debugfs")
    return fine("driver", f"rknpu {board.driver}")


def _driver_version(root: Path) -> str | None:
    text = _read(root / "sys/kernel/debug/rknpu/version") or _read(
        root / "sys/module/rknpu/version"
    )
    found = re.search(r"\d+\.\d+\.\d+", text)
    return found.group() if found else None


def _cores(root: Path) -> Iterator[Finding]:
    load = _read(root / "sys/kernel/debug/rknpu/load").strip()
    if load:
        yield fine("load", load)


def _frequency(root: Path) -> Iterator[Finding]:
    for folder in sorted(root.glob("sys/class/devfreq/*npu*")):
        now, most = (_read(folder / name).strip() for name in ("cur_freq", "max_freq"))
        governor = _read(folder / "governor").strip()
        if not now.isdigit():
            continue
        text = f"{int(now) // 1_000_000} MHz, governor {governor}"
        if most.isdigit() and int(now) < int(most) and governor != "performance":
            yield note(
                "frequency", f"{text}, of at most {int(most) // 1_000_000} MHz",
                f"to measure: echo performance | sudo tee /{folder.relative_to(root)}/governor",
            )  # fmt: skip
        else:
            yield fine("frequency", text)


# --------------------------------------------------------------------------------- the library


def _libraries(root: Path) -> tuple[tuple[Path, str], ...]:
    """The vendors' libraries, and what each says of itself."""
    found = [
        path.resolve()
        for folder in _LIBRARIES
        for name in _LIBRARY_NAMES
        if (path := root / folder / name).is_file()
    ]
    return tuple((path, _version_of(path)) for path in dict.fromkeys(found))


def _library(board: versions.Board) -> Iterator[Finding]:
    for path, version in board.libraries:
        yield fine("library", f"{path}{f', {version}' if version else ''}")
    if board.chip and not board.libraries:
        yield wrong(
            "library",
            f"none of {', '.join(_LIBRARY_NAMES)} in {', '.join(f'/{f}' for f in _LIBRARIES)}",
            "copy the vendor's runtime there, or name it in ANYNPU_RKNN_LIBRARY",
        )  # fmt: skip
    for name in ("ANYNPU_RKNN_LIBRARY", "ANYNPU_VIPLITE_LIBRARY", "ANYNPU_DEVICE", "ANYNPU_SOC"):
        if os.environ.get(name):
            yield note(f"${name}", os.environ[name])


def _version_of(path: Path) -> str:
    """What a vendor's library says of itself in its text."""
    match = re.search(rb"lib\w+ version: ?([\w.() @:-]{3,60})", path.read_bytes())
    return match.group(1).decode() if match else ""


# -------------------------------------------------------------------------------- the soft NPU


def _soft_npu() -> Iterator[Finding]:
    modules, _ = extras.missing(("formats", "soft"))
    if modules:
        yield note(
            "soft NPU", "not complete", "pip install 'anynpu[soft]' to run models without a board"
        )
        return
    yield _try("soft NPU", _product)


def _product() -> str:
    """A small matrix product on the soft NPU, which takes all of the way down and back."""
    import numpy as np

    from ..rknn.matmul import matmul

    a = np.arange(64, dtype=np.int8).reshape(2, 32)
    b = np.ones((32, 32), np.int8)
    if not np.array_equal(matmul(a, b, library="soft"), a.astype(np.int32) @ b):
        raise AnynpuError("a matrix product has a wrong value")
    return "computes"


def _try(subject: str, work: Callable[[], str]) -> Finding:
    try:
        return fine(subject, work())
    except (AnynpuError, OSError, ImportError) as error:
        return wrong(subject, str(error), "please report this")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
