"""What a model's tasks hold once."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu import prepare
from anynpu.soft.engines.rknpu.interning import shared
from anynpu.soft.formats.rknn.reader import read_model


def entries(number: int) -> NDArray[np.float64]:
    return np.full((2, 3), number, np.float64)


def test_arrays_of_the_same_content_are_one() -> None:
    one = shared(entries(1))
    assert shared(entries(1)) is one
    assert shared(entries(2)) is not one
    assert shared(entries(1).astype(np.float32)) is not one
    assert shared(entries(1).reshape(3, 2)) is not one
    assert not one.flags.writeable


def test_nobody_keeps_what_nobody_has() -> None:
    one = shared(entries(3))
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_weights_of_floats_stay_as_the_file_has_them(
    compiled_sample: Callable[[str], Path],
) -> None:
    data = compiled_sample("rk3588/ppocr_cls_fp16").read_bytes()
    model = read_model(data)
    tracemalloc.start()
    try:
        prepared = prepare(model, model.graphs[0])
        arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        held = tracemalloc.take_snapshot().filter_traces([arrays]).statistics("filename")
    finally:
        tracemalloc.stop()
    assert prepared.tasks
    assert sum(part.size for part in held) < len(data) / 4
