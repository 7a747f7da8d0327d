"""Which form of the kernels runs, and that the switch reaches all of them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anynpu.errors import OptionError
from anynpu.native import compiler, forms, kernels, library, matmul
from anynpu.soft.engines.rknpu.kernels import rearranging
from anynpu.soft.engines.rknpu.kernels.general import kernels as general
from anynpu.soft.engines.rknpu.kernels.int8 import kernels as int8
from anynpu.soft.engines.vip.kernels import native as vip

LIBRARIES = {
    "kernels": kernels.functions,
    "matmul": matmul._library,
    "npu": int8.library,
    "npu_general": general.library,
    "npu_copies": rearranging.library,
    "vip": vip.library,
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    forms.use(None)


def test_the_best_one_runs() -> None:
    assert forms.available()[0] == forms.PLAIN
    assert forms.running() == forms.available()[-1]


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("form", forms.available())
def test_one_switch_reaches_every_file_of_kernels(name: str, form: str) -> None:
    built: ctypes.CDLL = LIBRARIES[name]()  # type: ignore[operator]
    forms.use(form)
    assert forms.running() == form
    assert forms.running_in(built) == form


@pytest.mark.skipif("avx2" not in forms.available(), reason="needs a processor with AVX2")
def test_a_build_without_the_processor_s_vectors_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one by a compiler that can't tell what the processor has."""
    sources = tmp_path / "source"
    sources.mkdir()
    for file in compiler.sources("steps"):
        shutil.copy(file, sources)
    header = sources / "cpu.h"
    text = header.read_text()
    assert text.count("static int has_vectors(void) {\n") == 1
    header.write_text(text.replace("has_vectors(void) {\n", "has_vectors(void) {\n    return 0;\n"))
    source = sources / "narrow.c"
    source.write_text('#include "cpu.h"\n')
    compiler.compile_shared(source, tmp_path / "libanynpu_narrow.so")
    monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, str(tmp_path))
    monkeypatch.setattr(forms, "_loaded", [])
    with pytest.warns(RuntimeWarning, match="without AVX2, which this processor has"):
        narrow = forms.load_kernels("narrow")
    assert forms.running_in(narrow) == forms.PLAIN


def test_unknown_forms_are_refused_and_change_nothing() -> None:
    forms.use(forms.PLAIN)
    with pytest.raises(OptionError, match=r"can't run as 'avx9' here: this processor has plain"):
        forms.use("avx9")
    assert forms.running() == forms.PLAIN
    built = kernels.functions()
    assert built.anynpu_use_form(99) == built.anynpu_use_form(-1) == -1
    assert forms.running() == forms.PLAIN


def test_a_form_shows_in_what_can_be_done() -> None:
    """Plain kernels have no products of float16."""
    b = matmul.Weights(np.ones((64, 32), np.float16), 64, 32)
    forms.use(forms.PLAIN)
    a, out = np.ones((1, 64), np.float32), np.zeros((1, 32), np.float32)
    assert not matmul.multiply_half(a, b, out)


@pytest.mark.parametrize("word", ["plain", " Plain "])
def test_the_environment_chooses_at_load(word: str) -> None:
    text = "from anynpu.native import forms; print(forms.running())"
    environment = {**os.environ, "ANYNPU_KERNELS": word}
    result = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "plain\n"


def test_a_wrong_word_in_the_environment_is_told() -> None:
    text = "from anynpu.native import forms; forms.running()"
    environment = {**os.environ, "ANYNPU_KERNELS": "fast"}
    result = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert "OptionError: kernels can't run as 'fast' here" in result.stderr


def test_halves_are_the_same_in_every_form() -> None:
    """All of them, and floats between and around any two neighbours."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    exact = halves.astype(np.float32)
    bits = exact.view(np.uint32)[np.isfinite(exact)]
    between = np.concatenate([bits + step for step in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)])
    floats = np.concatenate([between.astype(np.uint32).view(np.float32), [np.inf, -np.inf]])
    with np.errstate(over="ignore"):
        expected = floats.astype(np.float16).view(np.uint16)
    for form in forms.available():
        forms.use(form)
        wide = np.empty(halves.shape, np.float32)
        kernels.convert(halves, wide)
        numbers = ~np.isnan(exact)
        np.testing.assert_array_equal(wide.view(np.uint32)[numbers], exact.view(np.uint32)[numbers])
        assert np.isnan(wide[~numbers]).all()
        narrow = np.empty(floats.shape, np.float16)
        kernels.convert(floats.astype(np.float32), narrow)
        np.testing.assert_array_equal(narrow.view(np.uint16), expected)
