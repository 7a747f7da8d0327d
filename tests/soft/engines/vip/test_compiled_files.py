"""Small compiled files of our own, with what VeriSilicon's emulator of the chip makes of them."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from anynpu.soft.engines.nbg import vip
from anynpu.soft.formats import nbg

FILES = Path(__file__).parents[3] / "data" / "compiled" / "nbg"


def names() -> list[str]:
    """The files of the folder."""
    files = [*FILES.glob("*.nb"), *FILES.glob("*.nb.xz")]
    return sorted(file.name.partition(".nb")[0] for file in files)


def content_of(name: str) -> bytes:
    """A file of the folder, which may be compressed."""
    file = FILES / f"{name}.nb"
    return file.read_bytes() if file.exists() else lzma.decompress(_packed(file).read_bytes())


def _packed(file: Path) -> Path:
    return file.with_name(f"{file.name}.xz")


@pytest.mark.parametrize("name", names())
def test_a_file_gives_the_emulator_s_bytes(name: str) -> None:
    with np.load(FILES / f"{name}.npz") as archive:
        values = dict(archive)
    instance = vip.load(nbg.read(content_of(name))).instance(0)
    for index, array in enumerate(instance.inputs):
        array[...] = values[f"in{index}"].reshape(array.shape)
    # What a run leaves in the unit's queues is nothing to the next.
    for _ in range(2):
        instance.run()
        for index, array in enumerate(instance.outputs):
            expected = values[f"hw{index}"].reshape(array.shape)
            np.testing.assert_array_equal(array, expected)
