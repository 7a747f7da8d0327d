"""Means and deviations are read from files, and nothing is known of files that are damaged."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anynpu.rknn.normalization import NONE, Normalization, read_normalizations
from anynpu.soft.build import BuildOptions, build_file
from tests import models

FOLDER = Path(__file__).parents[1] / "data" / "compiled"
COMPILED = [lzma.decompress(p.read_bytes()) for p in sorted(FOLDER.glob("rk3562/*.rknn.xz"))[:3]]


def test_a_compiled_file_s_normalisation(compiled_sample: Callable[[str], Path]) -> None:
    (found,) = read_normalizations(compiled_sample("rk3588/conv3x3_rgb_i8_ms"), ["x"])
    assert found is not None
    assert not found.is_identity
    pixels = np.random.default_rng(0).integers(0, 256, (1, 4, 4, 3)).astype(np.uint8)
    mean, std = (np.array(each[:3], np.float32) for each in (found.mean, found.std))
    expected = (pixels - mean) / std
    np.testing.assert_array_equal(found.apply(pixels), expected)


def test_files_without_one(compiled_sample: Callable[[str], Path]) -> None:
    for name in ("rk3588/conv3x3_i8", "rk3566/conv3x3_i8", "rv1106/conv3x3_i8"):
        (found,) = read_normalizations(compiled_sample(name), ["x"])
        assert found is not None
        assert found.is_identity


def test_an_onnx_file_s_metadata() -> None:
    metadata = {"anynpu.mean": '{"x": [10, 20, 30]}', "anynpu.std": '{"x": [2, 4, 5]}'}
    assert read_normalizations(models.add_one(metadata=metadata), ["x"]) == (
        Normalization((10, 20, 30), (2, 4, 5)),
    )
    assert read_normalizations(models.two_inputs(), ["a", "b"]) == (NONE, NONE)


@given(st.data())
def test_damage_is_not_known(data: st.DataObject) -> None:
    """Whatever the bytes: an answer for each input, and no exception."""
    file = bytearray(data.draw(st.sampled_from(COMPILED)))
    for _ in range(data.draw(st.integers(1, 8))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(file)))
    for damaged in (bytes(file), bytes(file[:cut])):
        assert len(read_normalizations(damaged, ["x", "y"])) == 2


def test_files_that_are_not_there() -> None:
    assert read_normalizations("/nowhere/model.rknn", ["x"]) == (None,)


def test_a_soft_file_s_is_known(tmp_path: Path) -> None:
    """The container's tail is no part of the ONNX file."""
    target = tmp_path / "net.rknn"
    build_file(models.add_one(), target, BuildOptions(mean={"x": [1, 2, 3]}, std={"x": [4, 5, 6]}))
    assert read_normalizations(target, ["x"]) == (Normalization((1, 2, 3), (4, 5, 6)),)
