"""Which bytes of memory hold what the model put there: what depends on others is refused.

Memory that was never written holds on a board what was there before. Tasks do read it: lanes
after the last channel, pixels that fill up a surface, values that are multiplied by 0. What comes
of them is no better known than they are, which does no harm until it is used. So each task's
results are followed, element by element, and only what leaves the NPU has to be known: a graph's
outputs, and what the CPU reads.

Writers fill the lanes after the last channel with a number of their own, and whole rows are filled
by tasks that multiply what was there by 0 and add that number. Where that makes weights of zero,
what is multiplied by them doesn't matter: products of matrices rely on it. So the number is kept
with the flags of such bytes.

What lies after a graph's input isn't known to a task that begins in it: that may be written, and
is none of the picture.

Nothing here depends on data, so this runs once, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from .elements import Element
from .layout import (
    feature_views,
    features_read,
    image_view,
    operand_view,
    weight_view,
    written,
)
from .memory import INTERNAL, Memory, Strided
from .reference.convolution import reach, spread, window
from .reference.dpu import process
from .reference.features import read_atoms
from .reference.pooling import windows
from .reference.weights import effective_weights
from .reference.writer import write_atoms
from .rounding import SILICON, SIMULATOR
from .tasks import (
    BlockWriter,
    Convolution,
    ConvolutionTask,
    CopyTask,
    DenseWriter,
    Dpu,
    ElementwiseTask,
    Features,
    Image,
    PhaseWriter,
    PoolingTask,
    Stage,
    Task,
)
from .weights import StoredOperand, arrange_kernels, unpack_operands

_KNOWN, _UNKNOWN = 255, 0
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_WORD = 8
_MOST_NAMED = 3
_ROUNDINGS = SILICON, SIMULATOR
"""By which a program's tasks are computed, one or the other."""

_ALIGNED = 64
"""Tensors begin at multiples of this many bytes; what fills them up belongs to none."""

Flags = NDArray[np.bool_]
"""Whether each element is known."""


@dataclass(frozen=True)
class Input:
    """A graph's input in internal memory, `start` to `end`."""

    name: str
    start: int
    end: int


class DataFlow:
    """What is known of a memory while the nodes of a graph are gone through in order.

    `flags` shadow the internal memory: 0 for a byte that isn't known, 255 for one that is, and
    another number for one that holds a number known beforehand (`_filled`). Data sections that
    tasks write are known at first; constants always are.
    """

    def __init__(
        self, memory_bytes: int, sections: Mapping[int, NDArray[np.uint8]], written: frozenset[int]
    ) -> None:
        self.flags = np.full(memory_bytes, _UNKNOWN, np.uint8)
        known = {number: np.full(sections[number].size, _KNOWN, np.uint8) for number in written}
        self._memory = Memory(self.flags, known, written)
        self._written = written
        self._known_views: set[Strided] = set()
        """Views that are known whole, as long as nothing but known bytes is written."""
        self._lanes: dict[tuple[int, int, int, int], tuple[Dpu, NDArray[np.uint8] | None]] = {}
        """By the identity of the stages, which holds while they are kept."""
        self._inputs: list[Input] = []
        self._readers: list[str] = []

    def add_input(self, given: Input) -> None:
        """What a graph's input fills is known, until something else is written there."""
        self._inputs.append(given)
        self.flags[given.start : given.end] = _KNOWN

    def write(self, start: int, count: int) -> None:
        """Bytes of internal memory that the CPU fills."""
        self.flags[start : start + count] = _KNOWN
        self._forget(start, start + count)

    def readers(self) -> str:
        """Who read unknown bytes, for messages; the first few of them."""
        return "; ".join(self._readers[:_MOST_NAMED])

    def run(self, task: Task, place: str) -> None:
        """Follow one task; `place` names it."""
        target = written(task)
        with self._behind_inputs(task) as behind:
            results = self._results(task, target.atoms[-1])
            if behind and results is not None:
                # It may be a view of what will be known again.
                results = results.copy()
        if results is None:
            results = self._known_lanes(task, target.atoms)
        if results is None:
            for view in target.views:
                self._memory.view(view, writeable=True)[...] = _KNOWN
        else:
            self._known_views.clear()
            if not results.all():
                self._readers.append(f"{place}{behind}")
            if isinstance(target.writer, DenseWriter):
                results = np.pad(results, ((0, target.atoms[2] - len(results)), (0, 0)), "edge")
                self._memory.view(target.views[0], writeable=True)[...] = results.reshape(-1)
            else:
                write_atoms(self._memory, target, results)
        for view in target.views:
            if view.address.section == INTERNAL:
                self._forget(*view.extent)

    @contextmanager
    def _behind_inputs(self, task: Task) -> Iterator[str]:
        """What a task reads past an input that it begins in is unknown for a while; says so."""
        found = ""
        hidden: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []
        for view in features_read(task):
            low, high = view.extent
            for given in self._inputs if view.address.section == INTERNAL else ():
                end = -(-given.end // _ALIGNED) * _ALIGNED
                if given.start <= low < given.end and end < high:
                    count = high - given.end
                    found = f", which reads {count} bytes past the input {given.name!r}"
                    behind = self.flags[end:high]
                    hidden.append((behind, behind.copy()))
                    behind[...] = _UNKNOWN
                    self._known_views.clear()
        yield found
        for behind, flags in reversed(hidden):
            behind[...] = flags

    def _forget(self, start: int, end: int) -> None:
        """Inputs that are written over are none any more."""
        self._inputs = [given for given in self._inputs if end <= given.start or given.end <= start]

    def _results(self, task: Task, atom: int) -> NDArray[np.uint8] | None:
        """Flags of the atoms that a task's writer gets, None where all are known and none filled.

        For a writer of a reduction's results side by side they are (elements, bytes).
        """
        match task:
            case CopyTask():
                return self._copied(task)
            case ConvolutionTask():
                known = self._convolved(task.convolution)
                return self._through_stages(task, known, task.convolution.shape, atom)
            case ElementwiseTask():
                known = self._features(task.source)
                return self._through_stages(task, known, task.source.shape, atom)
            case PoolingTask():
                known = self._pooled(task)
                if known is None:
                    return None
                return _atoms(known, task.source.element.size, atom, _KNOWN)
        raise AssertionError("there are no other tasks")

    def _known_lanes(
        self, task: Task, atoms: tuple[int, int, int, int]
    ) -> NDArray[np.uint8] | None:
        """The flags of atoms of which all is known; None where none hold a number of `_filled`."""
        match task:
            case ConvolutionTask():
                shape = task.convolution.shape
            case ElementwiseTask():
                shape = task.source.shape
            case _:
                return None
        if isinstance(task.writer, DenseWriter):
            return None
        dpu, filler = task.dpu, _filler(task)
        channels = dpu.reduced_shape(shape)[0]
        key = id(dpu), channels, atoms[0] * atoms[-1], filler
        if key not in self._lanes:
            self._lanes[key] = dpu, _lanes(dpu, channels, atoms[0] * atoms[-1], filler)
        lanes = self._lanes[key][1]
        if lanes is None:
            return None
        return np.broadcast_to(lanes.reshape(atoms[0], 1, 1, atoms[-1]), atoms)

    def _copied(self, task: CopyTask) -> NDArray[np.uint8] | None:
        if all(self._all_known(view, and_not_filled=True) for view in feature_views(task.source)):
            return None
        atoms = read_atoms(self._memory, task.source)
        rows, columns = task.repeats
        if (rows, columns) == (1, 1):
            return atoms
        return np.concatenate([atoms.repeat(columns, axis=2)] * rows)

    def _is_known(self, views: Sequence[Strided]) -> bool:
        return all(self._all_known(view) for view in views)

    def _all_known(self, view: Strided, *, and_not_filled: bool = False) -> bool:
        section = view.address.section
        if section != INTERNAL and section not in self._written:
            return True
        if view in self._known_views:
            return True
        flags = self._memory.view(view)
        words = (view.address.offset, view.shape[-1], *view.strides[:-1])
        is_in_words = view.strides[-1] == 1 and not any(number % _WORD for number in words)
        if is_in_words and (flags.view(np.uint64) == _ALL).all():
            self._known_views.add(view)
            return True
        return bool((flags == _KNOWN).all() if and_not_filled else flags.all())

    def _features(self, features: Features) -> Flags | None:
        """Flags (C, H, W) of features, None where all are known."""
        views = feature_views(features)
        if self._is_known(views):
            return None
        if any(view.address.section not in (INTERNAL, *self._written) for view in views):
            raise ModelError("features of memory and of constants in turn are not known")
        size = features.element.size
        atoms = read_atoms(self._memory, features)
        surfaces, height, width, _ = atoms.shape
        elements = _whole(atoms.reshape(surfaces, height, width, -1, size), -1)
        planes = elements.transpose(0, 3, 1, 2).reshape(-1, height, width)
        known: Flags = planes[: features.channels]
        return None if known.all() else known

    def _image(self, image: Image) -> Flags | None:
        view = image_view(image)
        if self._all_known(view):
            return None
        pixels = self._memory.view(view).reshape(
            image.height, image.width, image.channels, image.element.size
        )
        known: Flags = _whole(pixels, -1).transpose(2, 0, 1)
        return known

    def _convolved(self, convolution: Convolution) -> Flags | None:
        """Flags of the sums (K, H, W)."""
        source = convolution.source
        known = self._image(source) if isinstance(source, Image) else self._features(source)
        kernels = self._kernels(convolution)
        if known is None and kernels is None:
            return None
        sums = np.ones(convolution.shape, np.bool_)
        if known is not None:
            # Channels that aren't valid count as zero; whole numbers times 0 are known.
            known = known.copy()
            known[convolution.valid_channels :] = True
            zeros = self._zeros(convolution)
            if zeros is None:
                sums &= _seen(known, convolution)
            else:
                known[zeros.all(0)] = True
                minds = ~zeros[:, ~known.all((1, 2))].all(1)
                sums[minds] &= _seen(known, convolution)
        if kernels is not None:
            sums &= kernels[: convolution.channels, None, None]
        return sums

    def _zeros(self, convolution: Convolution) -> Flags | None:
        """The channels that kernels multiply by 0, (K, C); None where that isn't known.

        Of whole numbers alone: floats that aren't numbers stay so.
        """
        weights, source = convolution.weights, convolution.source
        offset, layout = convolution.weight_offset, convolution.weights.layout
        if source.element.is_float or layout.is_depthwise or isinstance(offset, StoredOperand):
            return None
        if weights.is_constant:
            zeros = effective_weights(convolution, weights.values, offset) == 0
            return _whole(zeros[: convolution.channels], (2, 3))
        if source.element is not Element.INT8 or layout.with_zero_points:
            return None
        filled = _filled(-offset) if isinstance(offset, int) else _filled(0)
        if not isinstance(offset, int | None) or filled == _KNOWN:
            return None
        flags = self._memory.view(weight_view(weights)).reshape(-1, 1)
        kernels = arrange_kernels(flags, layout)[: convolution.channels, : source.channels]
        return _whole(kernels == filled, (2, 3))

    def _kernels(self, convolution: Convolution) -> Flags | None:
        """Flags of the kernels that tasks compute, (K,), or (C,) where each channel has its own."""
        weights, layout = convolution.weights, convolution.weights.layout
        view = weight_view(weights)
        if weights.is_constant or self._all_known(view):
            return None
        size = layout.element.size * (2 if layout.with_zero_points else 1)
        elements = _whole(self._memory.view(view).reshape(-1, size), -1)
        arranged = arrange_kernels(elements, layout)
        if layout.is_depthwise:
            return _whole(arranged, (1, 2))
        return _whole(arranged[:, : convolution.source.channels], (1, 2, 3))

    def _pooled(self, task: PoolingTask) -> Flags | None:
        known = self._features(task.source)
        if known is None:
            return None
        result: Flags = np.ones((len(known), task.height, task.width), np.bool_)
        for seen in windows(known, task, True):
            result &= seen
        return result

    def _through_stages(
        self,
        task: ConvolutionTask | ElementwiseTask,
        known: Flags | None,
        shape: tuple[int, ...],
        atom: int,
    ) -> NDArray[np.uint8] | None:
        """Flags of what the DPU gives for values of a shape (C, H, W)."""
        dpu = task.dpu
        for stage in (dpu.bs, dpu.bn):
            if stage is not None:
                known = self._after_stage(stage, known, shape, is_float=dpu.is_float)
        operand = dpu.elementwise.operand if dpu.elementwise else None
        if isinstance(operand, Features):
            known = _both(known, self._features(operand), shape)
        if known is None or known.all():
            return None
        reduced, size = _reduced(dpu, known), dpu.output.element.size
        if isinstance(task.writer, DenseWriter):
            return _bytes(reduced.reshape(-1), size)
        return _atoms(reduced, size, atom, _filler(task))

    def _after_stage(
        self, stage: Stage, known: Flags | None, shape: tuple[int, ...], *, is_float: bool
    ) -> Flags | None:
        if not is_float and _is_constant(stage):
            # Whole numbers times 0 are known, whatever they were.
            known = None
        for operand in (stage.add, stage.multiply):
            if isinstance(operand, StoredOperand):
                known = _both(known, self._stored(operand), shape)
        return known

    def _stored(self, operand: StoredOperand) -> Flags | None:
        """Flags (C, 1, 1) of numbers that a task computes."""
        view = operand_view(operand)
        if self._all_known(view):
            return None
        # An element is 0 where each of its bytes is, and never where one is 255.
        bits = np.where(self._memory.view(view), np.uint8(0), np.uint8(255))
        known: Flags = unpack_operands(bits, operand.block)[operand.part] == 0
        return known


def _is_zero(operand: Any) -> bool:
    return operand is not None and not isinstance(operand, StoredOperand) and not np.any(operand)


def _both(one: Flags | None, other: Flags | None, shape: tuple[int, ...]) -> Flags | None:
    if one is None or other is None:
        found = one if other is None else other
        return None if found is None else np.broadcast_to(found, shape)
    known: Flags = np.broadcast_to(one & other, shape)
    return known


def _seen(known: Flags, convolution: Convolution) -> Flags:
    """Whether all is known that each output sees, (1, H, W), or (C, H, W) if depthwise."""
    layout = convolution.weights.layout
    known = known if layout.is_depthwise else _whole(known, 0)[None]
    known = spread(known, convolution.inserted, True)
    _, height, width = known.shape
    top, left = convolution.padding
    rows = reach(convolution.height, layout.height, convolution.stride[0], convolution.dilation[0])
    columns = reach(convolution.width, layout.width, convolution.stride[1], convolution.dilation[1])
    shape = (len(known), max(rows, height + top), max(columns, width + left))
    padded = np.ones(shape, np.bool_)
    padded[:, top : top + height, left : left + width] = known
    result: Flags = np.ones((len(known), convolution.height, convolution.width), np.bool_)
    for row in range(layout.height):
        for column in range(layout.width):
            result &= window(padded, convolution, row, column)
    return result


def _reduced(dpu: Dpu, known: Flags) -> Flags:
    if not dpu.reduction:
        return known
    shape = dpu.reduced_shape((known.shape[0], known.shape[1], known.shape[2]))
    if dpu.reduces_rows:
        return _whole(known.reshape(shape[0], -1, 1, shape[2]), 1)
    return _whole(known, (0, 1, 2) if dpu.reduces_pixels else 0).reshape(shape)


def _whole(flags: NDArray[Any], axes: int | tuple[int, ...]) -> Flags:
    """Whether all along some axes is known."""
    found: Flags = np.logical_and.reduce(flags, axis=axes)
    return found


def _filled(value: int) -> int:
    """The flag of a byte that a writer fills a lane with; two numbers are just known."""
    flag = (value & 0xFF) ^ 0x80
    return _KNOWN if flag == _UNKNOWN else flag


def _filler(task: ConvolutionTask | ElementwiseTask) -> int:
    """The flag of lanes without a channel; elements of more bytes are just known."""
    if task.dpu.output.element is not Element.INT8:
        return _KNOWN
    writer = task.writer
    return _filled(writer.padding if isinstance(writer, BlockWriter | PhaseWriter) else 0)


def _lanes(dpu: Dpu, channels: int, count: int, filler: int) -> NDArray[np.uint8] | None:
    """The flags of so many lanes of a pixel; None where none holds a number of `_filled`."""
    if dpu.output.element is not Element.INT8:
        return None
    lanes = np.full(count, filler, np.uint8)
    lanes[:channels] = _constants(dpu, channels)
    return None if (lanes == _KNOWN).all() else lanes


def _constants(dpu: Dpu, channels: int) -> NDArray[np.uint8]:
    """The flags of channels, of those that get a number whatever a task reads."""
    flags: NDArray[np.uint8] = np.full(channels, _KNOWN, np.uint8)
    stages = [stage for stage in (dpu.bs, dpu.bn) if stage is not None]
    operands = [operand for stage in stages for operand in (stage.add, stage.multiply)]
    if (
        dpu.is_float
        or dpu.elementwise
        or dpu.reduction
        or any(isinstance(operand, StoredOperand) for operand in operands)
        or not any(_is_constant(stage) for stage in stages)
    ):
        return flags
    zeros = np.zeros((channels, 1, 1), np.int64)
    memory = Memory(np.zeros(0, np.uint8), {}, frozenset())
    one, other = (process(memory, dpu, zeros, rounding).ravel() for rounding in _ROUNDINGS)
    for channel in np.flatnonzero(one == other):
        flags[channel] = _filled(int(one[channel]))
    return flags


def _is_constant(stage: Stage) -> bool:
    return not stage.multiply_negatives and _is_zero(stage.multiply)


def _atoms(known: Flags, size: int, atom: int, filler: int) -> NDArray[np.uint8]:
    """(C, H, W) to atoms (surfaces, H, W, bytes); `filler` is for lanes without a channel."""
    channels, height, width = known.shape
    lanes = atom // size
    surfaces = -(-channels // lanes)
    planes = np.full((surfaces * lanes, height, width), filler, np.uint8)
    planes[:channels] = np.where(known, np.uint8(_KNOWN), np.uint8(_UNKNOWN))
    elements = planes.reshape(surfaces, lanes, height, width).transpose(0, 2, 3, 1)
    flags: NDArray[np.uint8] = elements.repeat(size, -1).reshape(surfaces, height, width, atom)
    return flags


def _bytes(known: Flags, size: int) -> NDArray[np.uint8]:
    """Flags of elements as those of their bytes, one more axis."""
    return np.where(known[..., None], _KNOWN, _UNKNOWN).astype(np.uint8).repeat(size, -1)
