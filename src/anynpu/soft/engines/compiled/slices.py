"""Slices of rows and columns: atoms are moved as they are, without a way through real values."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.rknn.model import Node, Tensor
from ..rknpu.kernels import Scratch, Step, chained
from ..rknpu.kernels.rearranging import copy_units, library
from .buffers import TensorBuffer, held_bytes
from .moves import NUMPY, slices

OP_TYPE = "Slice"

_IMAGE_AXES = 4
_ROWS, _COLUMNS = 2, 3
_WORD = 8

KERNELS = "fast"
"""What runs a node whose atoms are moved by kernels, in the word for tasks that have them."""


def atoms_move_by() -> str:
    """What moves atoms here: the kernels, or NumPy where there are none."""
    return KERNELS if library() else NUMPY


@dataclass(frozen=True)
class Slice:
    """A node that takes some rows and columns of features, whose elements stay what they are."""

    node: Node
    source: Tensor
    target: Tensor
    rows: slice
    columns: slice

    @property
    def runs_on(self) -> str:
        return atoms_move_by()

    def bind(self, memory: NDArray[np.uint8]) -> MovedAtoms:
        """What computes the node in an internal memory; one thread at a time."""
        source, target = TensorBuffer(memory, self.source), TensorBuffer(memory, self.target)
        taken = source.array[:, :, self.rows, self.columns]
        return moved_atoms(memory, taken, self.target, target.array)


class MovedAtoms:
    """Atoms on their way: steps that may be part of a chain of kernels, or a call of its own."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    @cached_property
    def _calls(self) -> Sequence[Callable[[], None]]:
        return chained(self.steps, Scratch(0, 0, 1), ctypes.c_int32())

    def __call__(self) -> None:
        for call in self._calls:
            call()


def moved_atoms(
    memory: NDArray[np.uint8], source: NDArray[Any], tensor: Tensor, target: NDArray[Any]
) -> MovedAtoms:
    """What moves atoms (N, C1, ..., C2) to `target`, which holds `tensor` in `memory`.

    Lanes without a channel, and what fills up surfaces, become 0. Atoms are whole words of 8 bytes.
    """
    channels, surfaces, lanes = tensor.shape[1], target.shape[1], target.shape[-1]
    whole = channels // lanes
    masks = _masks(surfaces - whole, lanes, target.itemsize, channels - whole * lanes)
    held = memory[tensor.offset : tensor.offset + held_bytes(tensor)]
    is_padded = held.size > target.nbytes
    move = _by_kernels if atoms_move_by() == KERNELS else _by_numpy
    steps = move(source[:, :whole], target[:, :whole], None) if whole else []
    for surface, mask in enumerate(masks, whole):
        steps += move(source[:, surface], target[:, surface], mask)
    if is_padded:
        words = held.view(np.uint64)[:, None]
        zeros = np.broadcast_to(np.zeros((1, 1), np.uint64), words.shape)
        steps = [*move(zeros, words, None), *steps]
    return MovedAtoms(steps)


def _by_kernels(
    source: NDArray[Any], target: NDArray[Any], mask: NDArray[np.uint64] | None
) -> list[Step]:
    """Atoms (..., C2) as a step of kernels; with a mask (words,) those bits of each."""
    return [copy_units(source.view(np.uint8), target.view(np.uint8), mask)]


def _by_numpy(
    source: NDArray[Any], target: NDArray[Any], mask: NDArray[np.uint64] | None
) -> list[Step]:
    """The same without kernels: words of the same place in all atoms together, which have few."""
    if mask is None:
        return [partial(np.copyto, target, source)]
    taken, filled = source.view(np.uint64), target.view(np.uint64)
    return [
        partial(np.bitwise_and, taken[..., word], kept, filled[..., word])
        for word, kept in enumerate(mask)
    ]


def _masks(surfaces: int, lanes: int, itemsize: int, channels: int) -> NDArray[np.uint64]:
    """(C1, words of an atom): the bits of channels, not of the lanes after the last one."""
    kept = np.zeros((surfaces * lanes, itemsize), np.uint8)
    kept[:channels] = 0xFF
    return kept.reshape(surfaces, lanes * itemsize).view(np.uint64)


def prepare_slice(
    node: Node, source: Tensor, target: Tensor, constants: Sequence[NDArray[Any]]
) -> Slice | None:
    """A node with its starts, ends, axes and steps; None for slices of another kind."""
    if not _move_alike(source, target) or len(constants) not in (2, 3, 4):
        return None
    taken = slices(source.shape, constants)
    if taken is None or not set(taken) <= {_ROWS, _COLUMNS}:
        return None
    if any(part.step < 0 for part in taken.values()):
        return None
    every = slice(None)
    return Slice(node, source, target, taken.get(_ROWS, every), taken.get(_COLUMNS, every))


def _move_alike(source: Tensor, target: Tensor) -> bool:
    """Whether both have the same channels in the same blocks, apart from each other."""
    return (
        source.kind.is_internal
        and target.kind.is_internal
        and source.layout is target.layout
        and source.element is target.element
        and source.quantization == target.quantization
        and len(source.shape) == len(target.shape) == _IMAGE_AXES
        and source.shape[:2] == target.shape[:2]
        and are_apart(source, target)
        and has_whole_words(source)
        and has_whole_words(target)
        and source.native_shape[-1] == target.native_shape[-1]
    )


def are_apart(source: Tensor, target: Tensor) -> bool:
    """Whether two tensors have no byte of an internal memory in common."""
    return (
        source.offset + held_bytes(source) <= target.offset
        or target.offset + held_bytes(target) <= source.offset
    )


def has_whole_words(tensor: Tensor) -> bool:
    """Whether a tensor is a picture in blocks whose atoms are words of 8 bytes."""
    shape, dtype = tensor.native_shape, tensor.element.dtype
    return (
        dtype is not None
        and len(shape or ()) == _IMAGE_AXES + 1
        and not tensor.offset % _WORD
        and not tensor.row % _WORD
        and not shape[-1] * dtype.bits % (8 * _WORD)
        and shape[2:4] == tensor.shape[2:]
    )
