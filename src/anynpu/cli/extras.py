"""The packages that commands need besides NumPy, and the extras that bring them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

_NEEDS = {
    "formats": ("formats", ("flatbuffers", "bson")),
    "tables": ("cli", ("rich",)),
    "pictures": ("cli", ("PIL",)),
    "soft": ("soft", ("onnx", "onnxruntime")),
    "plot": ("plot", ("matplotlib",)),
    "graph": ("plot", ("matplotlib", "networkx")),
    "demo": ("demo", ("skimage",)),
    "vision": ("vision", ("cv2",)),
    "drawing": ("vision", ("cv2", "supervision")),
    "serve": ("serve", ("grpc", "starlette", "uvicorn", "prometheus_client")),
    "video": ("vision", ("cv2", "av")),
}
"""What a command may need: the extra that brings it, and its modules."""

_BRING_FORMATS = {"cli", "soft", "demo"}


def missing(needs: Iterable[str]) -> tuple[list[str], list[str]]:
    """(modules, extras): what isn't installed of some needs, and the fewest that bring it."""
    modules: list[str] = []
    extras: list[str] = []
    for need in needs:
        extra, packages = _NEEDS[need]
        absent = [name for name in packages if name not in modules and find_spec(name) is None]
        modules += absent
        if absent and extra not in extras:
            extras.append(extra)
    if _BRING_FORMATS & set(extras):
        extras = [extra for extra in extras if extra != "formats"]
    return modules, extras


def require(*needs: str) -> None:
    """Raise ImportError that names all that is missing, before any work is done."""
    modules, extras = missing(needs)
    if modules:
        raise ImportError(_sentence(modules, extras))


def advice(needs: Iterable[str], error: ImportError) -> str:
    """What to install, by what a command may need and the import that failed."""
    modules, extras = missing(needs)
    return _sentence(modules, extras) if modules else str(error)


def _sentence(modules: list[str], extras: list[str]) -> str:
    verb = "isn't" if len(modules) == 1 else "aren't"
    return f"{', '.join(modules)} {verb} installed: pip install 'anynpu[{','.join(extras)}]'"
