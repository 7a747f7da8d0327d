"""What kernels are called with: put together once, addresses filled in for each context."""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.native import steps
from anynpu.native.memory import address_of
from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.program import Variant
from anynpu.soft.engines.vip import structures
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.kernels.arguments import Arguments, Constants, Packed, pointers_of
from anynpu.soft.engines.vip.memory import Memory, Space
from anynpu.soft.engines.vip.program import VipProgram
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg.model import Source

from .test_compiled import FILES, FOLDER
from .test_kernels import layout

POOL = Space(Source.POOL)


def test_addresses_are_put_where_they_belong() -> None:
    places = layout()
    start, _ = places.place(POOL)
    made = Arguments(places)
    first = made.put(structures.Planes(base=made.pointer(POOL), offset=5))
    parts = (structures.ConvolutionPart * 2)()
    parts[1].convolution, parts[1].first = first, 7
    value = made.constant(np.arange(3.0))
    call = structures.Stream(program=value, rows=1 << 60)
    call.queue_1.held = made.queue_values(1, 4) + 8
    call.queue_0.held = made.queue_values(0, 5)
    made.step(steps.Entry(11, made.put(parts), 3, 4))
    made.step(steps.Entry(12, made.put(call), 1, 1))
    packed = made.packed()
    found, other = Memory(places), Memory(places)
    bound, second = packed.bound(found), packed.bound(other)
    entries = bound.steps(0, 2)
    assert [(entry.kernel, entry.units, entry.grain) for entry in entries] == [
        (11, 3, 4), (12, 1, 1),
    ]  # fmt: skip
    put = (structures.ConvolutionPart * 2).from_address(entries[0].arguments)
    assert (put[0].convolution, put[1].first) == (None, 7)
    planes = structures.Planes.from_address(put[1].convolution)
    assert (planes.base, planes.offset) == (address_of(found.array) + start, 5)
    stream = structures.Stream.from_address(entries[1].arguments)
    assert (stream.program, stream.rows, stream.target.base) == (value, 1 << 60, None)
    assert stream.queue_1.held == address_of(found.queue_values(9)) + 4 * 5 + 8
    assert stream.queue_0.held == address_of(found.queue_values(9))
    assert stream.queue_0.written is None
    assert (ctypes.c_double * 3).from_address(value)[:] == [0, 1, 2]
    again = structures.Stream.from_address(second.steps(1, 2)[0].arguments)
    assert again.program == value
    assert again.queue_1.held == address_of(other.queue_values(9)) + 4 * 5 + 8


def test_equal_constants_are_held_once() -> None:
    constants = Constants()
    small, large = np.arange(50), np.zeros(1 << 20, np.uint8)
    addresses = [constants.address(small), constants.address(small.copy())]
    assert addresses[0] == addresses[1]
    assert constants.address(small + 1) not in addresses
    assert constants.address(large) == address_of(large)
    assert any(kept is large for kept in constants.finish())


def test_every_address_of_a_structure_is_known() -> None:
    for kind in structures.STRUCTURES:
        names = [name for name, type_of, *_ in kind._fields_ if type_of is ctypes.c_void_p]
        found = pointers_of(kind).tolist()
        assert {getattr(kind, name).offset for name in names} <= set(found)
    assert pointers_of(structures.ConvolutionParts * 3).size == 3


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_contexts_differ_in_their_own_addresses_alone(path: Path) -> None:
    program = loaded(nbg.read(path.read_bytes()))
    packed: Packed = program._compiled.packed
    bounds = [packed.bound(Memory(program._layout)) for _ in range(2)]
    mine, other = (words_of(bound.steps(0, 1)[0], packed) for bound in bounds)
    own = {*packed.in_memory.tolist(), *packed.in_queues.tolist(), *packed.in_arguments.tolist()}
    assert own
    assert set(np.flatnonzero(mine != other).tolist()) <= own


def test_nothing_of_a_file_stays() -> None:
    """A program has what it needs: neither the file's bytes nor its operations."""
    files = sorted(FOLDER.glob("*.nb"))
    assert files
    for path in files:
        model = nbg.read(path.read_bytes())
        assert model.executable is not None
        pieces = model.executable.coefficients + model.executable.constants
        watched: list[weakref.ref[object]] = [weakref.ref(model.executable)]
        watched += [weakref.ref(piece.base) for piece in pieces if piece.base is not None]
        instance = (program := loaded(model)).instance(0)
        layers = program.lowered(0).layers
        del model, pieces
        assert not [path.name for each in watched if each() is not None]
        assert program.lowered(0).layers == layers
        instance.run()
        instance.close()


def words_of(first: steps.Entry, packed: Packed) -> NDArray[np.int64]:
    """Arguments as whole numbers; the first step's are first where it has no parts."""
    kind = ctypes.c_int64 * (packed.size // 8)
    return np.array(kind.from_address(first.arguments))


def loaded(model: nbg.Nbg) -> VipProgram:
    described = vip.contract(model)
    return VipProgram(model, Variant(described.inputs, described.outputs), described.soc)
