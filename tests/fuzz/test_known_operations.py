"""What `vip_file` leaves out is what no damage is in, and nothing else."""

from __future__ import annotations

import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.vip.memory import Memory, Window
from anynpu.soft.engines.vip.prepare import Operations
from anynpu.soft.engines.vip.reference.compute import compute
from anynpu.soft.engines.vip.tasks import Convolution, Task
from anynpu.soft.formats import nbg

from . import checks, known_operations, vip_files


def _residual() -> vip_files.Target:
    return next(target for target in vip_files.targets() if target.name == "residual.t527")


def _known(data: bytes) -> list[bool]:
    with known_operations.used():
        tasks = list(Operations(nbg.read(data)).tasks())
    return list(map(known_operations.is_known, tasks))


def test_operations_of_a_sound_file_are_known() -> None:
    assert _known(_residual().data) == [True] * 4


def test_an_operation_whose_command_changed_is_not() -> None:
    target = _residual()
    model = nbg.read(target.data)
    assert model.executable is not None
    size = model.executable.nn[0].nbytes
    refused, others = 0, set()
    for word in range(0, size, 4):
        changed = bytearray(target.data)
        changed[target.sections["NN operations"].start + size + word] ^= 1
        try:
            others.add(tuple(_known(bytes(changed))))
        except ModelError:
            refused += 1
    assert refused
    assert others == {(True, False, True, True)}


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = compute

    def wrong(task: Task, memory: Memory) -> None:
        right(task, memory)
        if isinstance(task, Convolution):
            window = next(iter(task.writes()))
            assert isinstance(window, Window)
            memory.space(window.space)[window.offset] ^= 1

    assert checks.vip_file(_residual().data) == checks.RAN
    monkeypatch.setattr(checks, "compute", wrong)
    with pytest.raises(AssertionError, match="not equal"):
        checks.vip_file(_residual().data)
