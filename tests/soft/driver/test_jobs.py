"""Compiled files through the kernel interface: the engine on raw memory and addresses."""

from __future__ import annotations

import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu import soc
from anynpu.soft.driver import Board, Launch, Server, Settings
from anynpu.soft.engines.compiled.program import CompiledProgram

from .compiled_jobs import computed, npu_tasks, start_memory

DATA = Path(__file__).parents[2] / "data" / "compiled"
FILES = {
    "rk3588": ("add_column_int8", "deconv_stride3_int8", "softmax_two_float16"),
    "rk3566": ("conv_one_int8", "layernorm_int8"),
}
SEED = 3

Runner = Callable[..., tuple[NDArray[np.uint8], list[str]]]


@pytest.fixture
def through_driver(tmp_path: Path) -> Runner:
    """A function that runs a compiled file's tasks by the kernel interface in another process."""

    def run(chip: str, file: Path, **options: bool) -> tuple[NDArray[np.uint8], list[str]]:
        output = tmp_path / "memory"
        reports: list[str] = []
        found = soc.find(chip)
        with Server(found, report=lambda line, _: reports.append(line), **options) as server:
            settings = Settings(Board(found), socket=server.path)
            with Launch(Path(sys.executable), settings) as launch:
                arguments = [str(file), str(found.cores), str(SEED), str(output)]
                module = ["-m", "tests.soft.driver.compiled_jobs"]
                done = launch.run([*module, *arguments], timeout=120)
        assert done.returncode == 0, done.stdout.decode()
        return np.fromfile(output, np.uint8), reports

    return run


@pytest.mark.parametrize("use_fast", [True, False])
@pytest.mark.parametrize(
    ("chip", "network"), [(chip, name) for chip, names in FILES.items() for name in names]
)
def test_tasks_compute_what_the_soft_npu_does(
    through_driver: Runner, tmp_path: Path, chip: str, network: str, use_fast: bool
) -> None:
    with np.load(DATA / f"{chip}_{network}.npz") as archive:
        data = lzma.decompress(archive["compiled"].tobytes())
    file = tmp_path / "network.rknn"
    file.write_bytes(data)
    program = CompiledProgram(data)
    found = program.graph(0)
    expected = computed(program, start_memory(found.prepared.memory_bytes, SEED))
    memory, reports = through_driver(chip, file, use_fast=use_fast)
    np.testing.assert_array_equal(memory, expected)
    assert reports == [f"{len(npu_tasks(found.graph))} tasks"] * 2
