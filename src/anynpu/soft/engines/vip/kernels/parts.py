"""Convolutions whose kernels are held in parts, each of which looks at few channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from .....native import steps
from .. import structures
from ..coefficients import Part
from ..planes import Planes
from ..tasks import Convolution
from . import native
from .arguments import Arguments
from .plan import Plan, units_of


class PartsPlan(Plan):
    """Convolutions of the same image as one call."""

    __slots__ = "_plans", "_threads"
    kernel = "convolution"

    def __init__(self, plans: Sequence[Plan], threads: int) -> None:
        self._plans, self._threads = plans, threads
        self.scratch = max(plan.scratch for plan in plans)

    def bind(self, arguments: Arguments) -> steps.Entry:
        bound = [plan.bind(arguments) for plan in self._plans]
        parts = (structures.ConvolutionPart * len(bound))()
        units = 0
        for part, entry in zip(parts, bound, strict=True):
            part.convolution, part.first = entry.arguments, units
            units += entry.units
        call = structures.ConvolutionParts(
            parts=arguments.put(parts), count=len(bound), units=units
        )
        return steps.Entry(
            native.address("anynpu_vip_convolution_parts"),
            arguments.put(call),
            units,
            units_of(units, self._threads),
        )


def split(task: Convolution) -> list[Convolution] | None:
    """A convolution for each part of the kernels; None where channels that lie side by side would
    be cut.
    """
    kernels = task.sums.kernels
    assert kernels is not None, "there are parts"
    found = [_part_of(task, part) for part in kernels.parts]
    parts = [part for part in found if part is not None]
    return parts if len(parts) == len(found) else None


def _part_of(task: Convolution, part: Part) -> Convolution | None:
    count, depth, _, _ = part.kernels.form
    pixels = math.prod(task.shuffle)
    source = _some(task.sums.source, part.first, depth)
    target = None
    if part.start % pixels == 0 and count % pixels == 0:
        target = _some(task.target, part.start // pixels, count // pixels)
    if source is None or target is None:
        return None
    sums = replace(task.sums, source=source, kernels=part.kernels, channels=count)
    made = replace(task, sums=sums, target=target)
    second = task.addition or task.product
    if second is None:
        return made
    own = _some(second.source, part.start, count)
    if own is None:
        return None
    operand = replace(second, source=own)
    if task.addition is not None:
        return replace(made, addition=operand)
    return replace(made, product=operand)


def _some(planes: Planes, first: int, count: int) -> Planes | None:
    """Channels of an image; None for those that begin inside of a group."""
    if first % planes.group:
        return None
    return replace(
        planes, offset=planes.offset + first // planes.group * planes.plane, channels=count
    )
