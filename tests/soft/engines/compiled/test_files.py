"""Compiled files on disk: mapped, shared by contexts, and what becomes of those that change."""

from __future__ import annotations

import gc
import lzma
import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines import Instance, ModelSource, load
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.rknn.programs import program_of

from .test_networks import FOLDER, archive_of

_SETTLED = 10
"""Seconds after which files count as written for good."""


def contents(name: str) -> bytes:
    return lzma.decompress((FOLDER / f"{name}.rknn.xz").read_bytes())


@pytest.fixture
def whole_numbers(tmp_path: Path) -> Path:
    """A file whose weights kernels have in an order of their own."""
    return written(tmp_path / "whole_numbers.rknn", contents("rk3576/cnn_i8"))


@pytest.fixture
def floats(tmp_path: Path) -> Path:
    """A file whose weights kernels take from where they lie."""
    return written(tmp_path / "floats.rknn", archive_of(FOLDER / "rk3588_batch_float16.npz")[0])


@pytest.fixture(params=["whole_numbers", "floats"])
def file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    moment = time.time() - _SETTLED
    os.utime(path, (moment, moment))
    return path


def outputs(instance: Instance) -> list[bytes]:
    rng = np.random.default_rng(3)
    for array in instance.inputs:
        array[...] = rng.integers(-100, 100, array.shape)
    instance.run()
    return [array.tobytes() for array in instance.outputs]


def kilobytes(path: Path, what: str = "Rss") -> list[int]:
    """What `/proc/self/smaps` says of each mapping of a file."""
    found, is_wanted = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith(f"{what}:") and is_wanted:
            found.append(int(line.split()[1]))
        elif "-" in line.split()[0]:
            is_wanted = line.endswith(str(path))
    return found


def test_a_mapped_file_computes_what_its_bytes_do(file: Path) -> None:
    assert outputs(load(ModelSource.of(file)).instance(0)) == outputs(
        CompiledProgram(file.read_bytes()).instance(0)
    )


@pytest.mark.parametrize("before", [4096, 64, 1])
def test_a_part_of_a_file_is_a_model(tmp_path: Path, before: int) -> None:
    data = contents("rk3576/cnn_i8")
    path = written(tmp_path / "parts", bytes(before) + data + bytes(100))
    program = load(ModelSource.of(path, before, len(data)))
    assert outputs(program.instance(0)) == outputs(CompiledProgram(data).instance(0))


def test_pages_are_given_back_after_loading(whole_numbers: Path, floats: Path) -> None:
    for path, stays in ((whole_numbers, False), (floats, True)):
        program = load(ModelSource.of(path))
        assert kilobytes(path) == [0]
        instance = program.instance(0)
        outputs(instance)
        assert [bool(size) for size in kilobytes(path)] == [stays]
        del program, instance
        gc.collect()
        assert kilobytes(path) == []


def test_a_new_file_of_the_same_name_changes_nothing(file: Path) -> None:
    instance = load(ModelSource.of(file)).instance(0)
    before = outputs(instance)
    os.replace(written(file.with_suffix(".new"), b"something else"), file)
    assert outputs(instance) == before


@pytest.mark.parametrize("bytes_left", [1, 0])
def test_a_file_that_is_written_to(whole_numbers: Path, floats: Path, bytes_left: int) -> None:
    for path, is_read in ((whole_numbers, False), (floats, True)):
        program = load(ModelSource.of(path))
        instance = program.instance(0)
        before = outputs(instance)
        path.write_bytes(bytes(path.stat().st_size * bytes_left))
        if is_read:
            with pytest.raises(ModelError, match=rf"{path.name} was written to since"):
                instance.run()
        else:
            assert outputs(instance) == before
        with pytest.raises(ModelError, match=rf"{path.name} was written to since"):
            program.mistakes(0)


def test_contexts_of_a_file_share_its_program(file: Path) -> None:
    first = program_of(ModelSource.of(file))
    assert program_of(ModelSource.of(file)) is first
    assert program_of(ModelSource.of(file, 0, file.stat().st_size)) is not first
    data = file.read_bytes()
    written(file, data)
    os.utime(file, (1, 1))
    assert program_of(ModelSource.of(file)) is not first


def test_a_file_that_was_written_just_now_is_loaded_each_time(tmp_path: Path) -> None:
    path = tmp_path / "new.rknn"
    path.write_bytes(contents("rk3576/cnn_i8"))
    first = program_of(ModelSource.of(path))
    assert program_of(ModelSource.of(path)) is not first


def shared_kilobytes(path: str) -> int:
    """Run a file in this process; how much of it others have in memory, too."""
    instance = load(ModelSource.of(path)).instance(0)
    instance.run()
    # Pages that were written just now aren't on the disk yet.
    return sum(kilobytes(Path(path), "Shared_Clean") + kilobytes(Path(path), "Shared_Dirty"))


def test_processes_share_the_weights_of_floats(floats: Path) -> None:
    code = f"from {__name__} import shared_kilobytes; print(shared_kilobytes({str(floats)!r}))"

    def elsewhere() -> int:
        return int(subprocess.run([sys.executable, "-c", code], check=True, stdout=PIPE).stdout)

    assert elsewhere() == 0
    instance = load(ModelSource.of(floats)).instance(0)
    instance.run()
    assert elsewhere() > 0
