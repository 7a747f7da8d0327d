"""A small compiled file gives the emulator's bytes, by kernels, by the reference, by a model."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import Model
from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.program import Variant
from anynpu.soft.engines.vip.program import VipProgram
from anynpu.soft.formats import nbg

FOLDER = Path(__file__).resolve().parents[3] / "data" / "compiled" / "nbg"
FILES = sorted(FOLDER.glob("residual.*.nb"))


def contents(path: Path) -> tuple[bytes, np.ndarray, np.ndarray]:
    with np.load(path.with_suffix(".npz")) as archive:
        return path.read_bytes(), archive["in0"], archive["hw0"]


def program(data: bytes, *, has_kernels: bool) -> VipProgram:
    model = nbg.read(data)
    described = vip.contract(model)
    variant = Variant(described.inputs, described.outputs)
    return VipProgram(model, variant, described.soc, has_kernels=has_kernels)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("has_kernels", [True, False])
def test_the_emulator_s_bytes(path: Path, has_kernels: bool) -> None:
    data, given, expected = contents(path)
    instance = program(data, has_kernels=has_kernels).instance(0)
    instance.inputs[0][...] = given.reshape(instance.inputs[0].shape)
    for _ in range(2):
        instance.run()
        assert (instance.outputs[0].ravel() == expected.ravel()).all()
    instance.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_model(path: Path, tmp_path: Path) -> None:
    data, given, expected = contents(path)
    file = tmp_path / "net.nb"
    file.write_bytes(data)
    with Model(file) as model:
        port = model.input_attrs[0]
        assert port.quantization is not None
        scale, zero_point = port.quantization.scale, port.quantization.zero_point
        values = (given.astype(np.float32) - zero_point) * np.float32(scale)
        model.run(values.reshape(port.shape))
        assert (model.output_raw(0).ravel() == expected.ravel()).all()


def test_damaged_files_are_errors_or_run() -> None:
    """Words of a file changed: what comes of it is an error with a reason, or a run."""
    data, given, _ = contents(FILES[0])
    rng = random.Random(1)
    for _ in range(60):
        changed = bytearray(data)
        place = 4 * rng.randrange(len(data) // 4)
        word = int.from_bytes(changed[place : place + 4], "little")
        word = rng.choice([word ^ 1 << rng.randrange(32), rng.randrange(1 << 32), 0, word + 1])
        changed[place : place + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")
        with contextlib.suppress(anynpu.ModelError):
            instance = program(bytes(changed), has_kernels=True).instance(0)
            if instance.inputs[0].size == given.size:
                instance.inputs[0].ravel()[...] = given.ravel()
            instance.run()
