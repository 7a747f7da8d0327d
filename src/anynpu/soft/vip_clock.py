"""The model clock of Allwinner's chips: an estimate of how long each layer takes on a VIP.

A layer takes as long as the longest of its arithmetic, of what goes through tables and programs
element by element, and of its memory traffic. docs/clock.md says what the constants come from, and
how little that is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..errors import OptionError
from ..soc import VIP_SOCS, VipCost, VipSoc
from .clock import LayerTime
from .engines.program import Layer

_BYTE_BY_BYTE = frozenset({"SP", "TP", "shader"})
"""Units of a compiled file that take elements one by one; others do where they use a table."""


def estimate(layers: Iterable[Layer], soc: VipSoc) -> tuple[LayerTime, ...]:
    """The time of each layer; raises `OptionError` for a chip of which no times are published."""
    cost = cost_of(soc)
    return tuple(_estimate(layer, cost) for layer in layers)


def call_microseconds(layers: Iterable[Layer], soc: VipSoc) -> float:
    """The time of a call that runs these layers: theirs and its own."""
    times = estimate(layers, soc)
    return sum(time.microseconds for time in times) + cost_of(soc).call * 1e6


def cost_of(soc: VipSoc) -> VipCost:
    """A chip's constants; raises `OptionError` where there are none."""
    if soc.cost is None:
        known = ", ".join(chip.name for chip in VIP_SOCS.values() if chip.cost is not None)
        raise OptionError(
            f"there is no model clock for {soc.name}: nobody has published times of it; there is "
            f"one for {known}"
        )
    return soc.cost


def _estimate(layer: Layer, cost: VipCost) -> LayerTime:
    multiplying = layer.macs / cost.products
    moved = layer.read_bytes + layer.written_bytes
    cycles = max(multiplying / cost.utilisation, _one_by_one(layer) / cost.elements_per_cycle)
    seconds = max(cycles / cost.clock, moved / cost.bandwidth)
    return LayerTime(
        ddr_cycles=0,
        npu_cycles=round(multiplying),
        microseconds=seconds * 1e6,
        mac_usage=multiplying / (cost.clock * seconds) if layer.macs else 0.0,
        cores=1,
    )


def _one_by_one(layer: Layer) -> int:
    if layer.op_type in _BYTE_BY_BYTE:
        return layer.written_bytes
    return math.prod(layer.output) if layer.uses_table else 0
