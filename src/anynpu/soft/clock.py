"""The model clock: an estimate of how long each layer of a network takes on a chip.

A layer's time is the longer of what its arithmetic and its memory traffic take, and an overhead.
docs/clock.md says where the constants come from and how far the estimates are off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..soc import Cost, Soc
from .engines.program import Layer

_IMAGE_CHANNELS = 4
"""Up to so many channels, the lanes hold a row of the kernel: its pixels, padded to 4 channels."""
_POOLINGS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
_SHARED = ("Add", "Clip", "Concat", "Conv", "Gemm", "LeakyRelu", "MatMul", "PRelu", "Relu")
"""What several cores compute together, by Rockchip's guide to the C API (matrix products run as
convolutions); other layers, and those with a look-up table, run on the first core."""


@dataclass(frozen=True)
class LayerTime:
    """One layer's time on a chip, as the runtime's table of layers gives it.

    `ddr_cycles` and `npu_cycles` are what memory and arithmetic take, in cycles of the NPU;
    `mac_usage` is the multiply-accumulates done, as a share of what all `cores` asked for could do
    in that time; `cores` is how many share the layer.
    """

    ddr_cycles: int
    npu_cycles: int
    microseconds: float
    mac_usage: float
    cores: int

    @property
    def total_cycles(self) -> int:
        """Memory and arithmetic work at the same time: the longer of the two counts."""
        return max(self.ddr_cycles, self.npu_cycles)


def estimate(layers: Iterable[Layer], soc: Soc, cores: int = 1) -> tuple[LayerTime, ...]:
    """The time of each layer when `cores` of the chip run the network together.

    Raises ValueError for more cores than the chip has, or none.
    """
    if not 1 <= cores <= soc.cores:
        raise ValueError(f"{soc.name} has {soc.cores} cores, not {cores}")
    return tuple(_estimate(layer, soc.cost, cores) for layer in layers)


def _estimate(layer: Layer, cost: Cost, cores: int) -> LayerTime:
    sharing = cores if _is_shared(layer) else 1
    npu = max(_multiplying(layer, cost), _one_by_one(layer, cost)) / sharing
    # The cores share the memory: two published profiles of one network show Add 1.65 and Concat
    # 1.56 times as fast on three cores as on one.
    bandwidth = cost.bandwidth * math.sqrt(sharing)
    ddr = (layer.read_bytes + layer.written_bytes) / bandwidth * cost.clock
    seconds = max(npu, ddr) / cost.clock + cost.overhead
    peak = math.prod(cost.lanes(layer.dtype)) * cost.clock * cores
    return LayerTime(
        ddr_cycles=round(ddr),
        npu_cycles=round(npu),
        microseconds=seconds * 1e6,
        mac_usage=layer.macs / (peak * seconds) if layer.macs else 0.0,
        cores=sharing,
    )


def _is_shared(layer: Layer) -> bool:
    is_named = layer.op_type.startswith(_SHARED) and not layer.op_type.startswith("ConvTranspose")
    return is_named and not layer.uses_table


def _multiplying(layer: Layer, cost: Cost) -> float:
    """Cycles of the multipliers: channels that fill no whole set of lanes take as long as it."""
    if not layer.macs:
        return 0.0
    lanes_out, lanes_in = cost.lanes(layer.dtype)
    channels, products = layer.channels_in, layer.macs / layer.channels_out
    if layer.is_depthwise:
        lanes_out = cost.depthwise_lanes * lanes_out // cost.int8_lanes[0]
    elif channels <= _IMAGE_CHANNELS and layer.kernel:
        products *= _IMAGE_CHANNELS / channels
        channels = _IMAGE_CHANNELS * layer.kernel[-1]
    sets = math.ceil(layer.channels_out / lanes_out) * math.ceil(channels / lanes_in)
    return products / channels * sets / cost.utilisation


def _one_by_one(layer: Layer, cost: Cost) -> float:
    """Cycles of the look-up table and of the pooling unit, which take elements one by one."""
    elements = 0.0
    if layer.op_type in _POOLINGS:
        elements = max(map(math.prod, (layer.output, *layer.inputs[:1])))
    elif layer.uses_table:
        lanes = cost.int8_lanes[0] if layer.channels_out else 1
        channels = layer.channels_out or 1
        elements = math.prod(layer.output) * math.ceil(channels / lanes) * lanes / channels
    return elements / cost.elements_per_cycle
