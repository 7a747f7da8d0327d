"""Files of toolkits before 1.6: what runs gives the vendor runtime's bytes, the rest is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu.soft.engines.compiled.program import CompiledProgram

from ....shared import VENDOR_RUNTIME


def file(name: str) -> Path:
    path = VENDOR_RUNTIME / f"{name}.rknn"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


def test_two_convolutions_and_a_sum() -> None:
    """The digest is of what librknnrt 1.5.2 answered, its NPU tasks computed by this engine."""
    program = CompiledProgram(file("mi_RK3566_RK3568").read_bytes())
    instance = program.instance(0)
    generator = np.random.default_rng(0)
    for array in instance.inputs:
        array[...] = generator.integers(-128, 128, array.shape)
    instance.run()
    digest = hashlib.sha256(instance.outputs[0].tobytes()).hexdigest()
    assert digest == "85a49623240cafee6d7643f0d9969fa133a79b01f3d14ad1a5bebe3d4abaa658"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("mi_RK3588", r"CNA_DCOMP_CTRL \(0x1100\) = 0x1"),
        ("mi_RK3562", r"CNA_CONV_CON1 \(0x100c\) = 0x3001e002: the bits 0x10000"),
    ],
)
def test_what_is_not_known_is_refused_by_name(name: str, problem: str) -> None:
    with pytest.raises(anynpu.ModelError, match=f"node 'Conv:Conv_1', task 0: .*{problem}"):
        CompiledProgram(file(name).read_bytes())
