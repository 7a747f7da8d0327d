"""Fixtures for all tests: a clean environment, the soft NPU through both of its doors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from anynpu.native import forms, kernels, matmul
from anynpu.rknn.library import RknnLibrary, load
from anynpu.soft.cabi.build import library_folder

from .shared import SHARED

_KEPT = ("ANYNPU_CACHE", "ANYNPU_NATIVE", "ANYNPU_KERNELS")
"""What the run itself needs: where it builds, and which builds in which form it tests."""

# A busy machine, or instrumented code, is as slow as it likes.
settings.register_profile("random", deadline=None, derandomize=False, print_blob=True)
# The same examples each time, so that a failure is of what was changed.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "random")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's settings don't reach a test; the soft NPU is chosen without its warning."""
    for name in list(os.environ):
        if name.startswith(("ANYNPU_", "RKNN_")) and name not in _KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("ANYNPU_DEVICE", "soft")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Shared libraries are built for this run, not taken from an earlier one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYNPU_CACHE", str(tmp_path_factory.mktemp("cache")))
        # Where they aren't prebuilt, no test's time pays for the compiler.
        kernels.is_built()
        matmul.is_built()
        yield


@pytest.fixture(scope="session")
def soft_folder(_own_cache: None) -> Path:
    """The folder with the soft NPU's librknnrt.so."""
    return library_folder()


@pytest.fixture(params=["table", "shared library"])
def npu(request: pytest.FixtureRequest, soft_folder: Path) -> RknnLibrary:
    """The soft NPU's functions: from the table in this process, and from librknnrt.so."""
    return load("soft" if request.param == "table" else soft_folder / "librknnrt.so")


def _finder(folder: str, suffix: str = "") -> Callable[[str], Path]:
    """A function from a name to the path of a shared file; it skips where the file isn't."""

    def find(name: str) -> Path:
        path = SHARED / folder / f"{name}{suffix}"
        if not path.is_file():
            pytest.skip(f"{path} is not there")
        return path

    return find


@pytest.fixture(scope="session")
def shared_model() -> Callable[[str], Path]:
    """A function from a file's name to its path in the shared models; skips where they aren't."""
    return _finder("models")


@pytest.fixture(scope="session")
def compiled_sample() -> Callable[[str], Path]:
    """A function from a compiled sample's name (rk3588/add_i8) to its path; skips without it."""
    return _finder("samples/rknn", ".rknn")


@pytest.fixture(scope="session")
def report_sample() -> Callable[[str], Path]:
    """A function from the name of a file that a report led to (min2_i8.rv1106) to its path."""
    return _finder("samples/reports", ".rknn")


@pytest.fixture(scope="session")
def ocr_models() -> Path:
    """The folder of PP-OCR's networks in the PyPI package that carries them; skips without it."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("rapidocr-onnxruntime is not installed (anynpu[demo], Python < 3.13)")
    return Path(spec.submodule_search_locations[0]) / "models"


@pytest.fixture(scope="module", params=forms.available())
def kernel_form(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each form of the kernels that this processor has, the plain one among them.

    `tests/native/test_forms_agree.py` runs those of other processors.
    """
    form: str = request.param
    forms.use(form)
    yield form
    forms.use(None)


@pytest.fixture(scope="session")
def c_compiler() -> str:
    """A C compiler's name; the build needs one, so its absence is a failure."""
    found = shutil.which("gcc") or shutil.which("cc")
    assert found, "these tests need a C compiler"
    return found
