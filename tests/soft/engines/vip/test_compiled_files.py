"""Small compiled files of our own, with what VeriSilicon's emulator of the chip makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anynpu.soft.engines.nbg import vip
from anynpu.soft.formats import nbg

_FILES = Path(__file__).parents[3] / "data" / "compiled" / "nbg"


@pytest.mark.parametrize("file", sorted(_FILES.glob("*.nb")), ids=lambda file: file.stem)
def test_a_file_gives_the_emulator_s_bytes(file: Path) -> None:
    with np.load(file.with_suffix(".npz")) as archive:
        values = dict(archive)
    instance = vip.load(nbg.read(file.read_bytes())).instance(0)
    for index, array in enumerate(instance.inputs):
        array[...] = values[f"in{index}"].reshape(array.shape)
    # What a run leaves in the unit's queues is nothing to the next.
    for _ in range(2):
        instance.run()
        for index, array in enumerate(instance.outputs):
            expected = values[f"hw{index}"].reshape(array.shape)
            np.testing.assert_array_equal(array, expected)
