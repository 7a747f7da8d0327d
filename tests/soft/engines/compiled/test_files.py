"""Compiled files on disk: mapped, shared by contexts, and what becomes of those that change."""

from __future__ import annotations

import gc
import lzma
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines import Instance, ModelSource, load
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.source import SHARED_FILES
from anynpu.soft.mapping import Extent, gaps_between, show_private
from anynpu.soft.rknn.programs import program_of

from .test_networks import FOLDER, archive_of

PAGE = mmap.PAGESIZE

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


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A file of which runs read less than a page, with whole pages before and after it."""
    name = "rk3588_transpose_0321_float16.npz"
    return written(tmp_path / "mixed.rknn", archive_of(FOLDER / name)[0])


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A file with a section that tasks write: every context has a copy."""
    return written(tmp_path / "copied.rknn", contents("rk3576/moves_i8"))


@pytest.fixture(params=["whole_numbers", "floats", "mixed", "copied"])
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


@pytest.fixture
def shares_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_FILES, "1")


def test_pages_are_given_back_after_loading(whole_numbers: Path) -> None:
    program = load(ModelSource.of(whole_numbers))
    assert kilobytes(whole_numbers) == [0]
    instance = program.instance(0)
    outputs(instance)
    assert kilobytes(whole_numbers) == [0]
    del program, instance
    gc.collect()
    assert kilobytes(whole_numbers) == []


def test_only_what_runs_read_is_kept(mixed: Path) -> None:
    instance = load(ModelSource.of(mixed)).instance(0)
    outputs(instance)
    assert kilobytes(mixed) == [0, 0]
    pages = -(-mixed.stat().st_size // PAGE)
    assert sum(kilobytes(mixed, "Size")) == (pages - 1) * PAGE // 1024


@pytest.mark.parametrize(
    ("kept", "gaps"),
    [
        ([], [(0, 5 * PAGE + 7)]),
        ([(0, 5 * PAGE + 7)], []),
        ([(5 * PAGE + 6, 5 * PAGE + 7)], [(0, 5 * PAGE)]),
        ([(PAGE, 2 * PAGE)], [(0, PAGE), (2 * PAGE, 5 * PAGE + 7)]),
        ([(3 * PAGE - 1, 3 * PAGE + 1), (9, 2 * PAGE)], [(4 * PAGE, 5 * PAGE + 7)]),
        ([(0, 4 * PAGE), (PAGE, PAGE + 1)], [(4 * PAGE, 5 * PAGE + 7)]),
    ],
)
def test_pages_that_hold_nothing_that_is_kept(kept: list[Extent], gaps: list[Extent]) -> None:
    assert gaps_between(kept, 5 * PAGE + 7) == gaps


@pytest.mark.usefixtures("shares_files")
def test_runs_read_the_file_s_own_pages_on_request(floats: Path) -> None:
    instance = load(ModelSource.of(floats)).instance(0)
    assert kilobytes(floats) == [0]
    outputs(instance)
    assert kilobytes(floats)[0] > 0


def test_a_new_file_of_the_same_name_changes_nothing(file: Path) -> None:
    instance = load(ModelSource.of(file)).instance(0)
    before = outputs(instance)
    os.replace(written(file.with_suffix(".new"), b"something else"), file)
    assert outputs(instance) == before


@pytest.mark.parametrize("bytes_left", [1, 0])
def test_a_file_that_is_written_to(file: Path, bytes_left: int) -> None:
    instance = load(ModelSource.of(file)).instance(0)
    before = outputs(instance)
    file.write_bytes(bytes(file.stat().st_size * bytes_left))
    assert outputs(instance) == before


@pytest.mark.parametrize("bytes_left", [1, 0])
def test_new_contexts_need_nothing_of_the_file(file: Path, bytes_left: int) -> None:
    program = load(ModelSource.of(file))
    before = outputs(program.instance(0))
    file.write_bytes(bytes(file.stat().st_size * bytes_left))
    assert outputs(program.instance(0)) == before


@pytest.mark.parametrize("bytes_left", [1, 0])
def test_who_looks_again_at_a_file_that_was_written_to(file: Path, bytes_left: int) -> None:
    program = load(ModelSource.of(file))
    instance = program.instance(0)
    before = outputs(instance)
    program.mistakes(0)
    file.write_bytes(bytes(file.stat().st_size * bytes_left))
    for _ in range(2):
        with pytest.raises(ModelError, match=rf"{file.name} was written to since"):
            program.mistakes(0)
    assert outputs(instance) == before


def test_a_file_that_is_written_to_as_somebody_looks_again(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that were read are refused, now and later; runs go on with those they had."""
    program = load(ModelSource.of(mixed))
    instance = program.instance(0)
    before = outputs(instance)

    def show_late(*arguments: Any) -> None:
        mixed.write_bytes(bytes(mixed.stat().st_size))
        show_private(*arguments)

    monkeypatch.setattr("anynpu.soft.engines.source.show_private", show_late)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"mixed\.rknn was written to since"):
            program.mistakes(0)
    assert outputs(instance) == before


@pytest.mark.usefixtures("shares_files")
@pytest.mark.parametrize("bytes_left", [1, 0])
def test_a_shared_file_that_is_written_to(floats: Path, bytes_left: int) -> None:
    instance = load(ModelSource.of(floats)).instance(0)
    outputs(instance)
    floats.write_bytes(bytes(floats.stat().st_size * bytes_left))
    with pytest.raises(ModelError, match=r"floats\.rknn was written to since"):
        instance.run()


def test_a_file_that_is_cut_off_as_contexts_are_made(file: Path) -> None:
    """Reading mapped pages that a file has lost would end the process."""
    program = CompiledProgram(ModelSource.of(file).mapped())
    with program._held():
        file.write_bytes(b"")
        instance = program.instance(0)
    assert any(outputs(instance))


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


@pytest.mark.usefixtures("shares_files")
def test_processes_share_the_weights_of_floats(floats: Path) -> None:
    code = f"from {__name__} import shared_kilobytes; print(shared_kilobytes({str(floats)!r}))"

    def elsewhere() -> int:
        return int(subprocess.run([sys.executable, "-c", code], check=True, stdout=PIPE).stdout)

    assert elsewhere() == 0
    instance = load(ModelSource.of(floats)).instance(0)
    instance.run()
    assert elsewhere() > 0
