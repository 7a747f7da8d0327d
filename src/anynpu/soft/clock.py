"""The model clock: an estimate of how long each layer of a network takes on a chip.

A layer's time is the longest of what its arithmetic, its look-up table and its memory traffic
take, and an overhead; a call adds its own. docs/clock.md says where the constants come from and how
far the estimates are off. The cycles beside the times aren't estimates: they are what the vendor's
compiler predicts for its convolutions, and its runtime prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..soc import Cost, Soc
from ..tensor import DType
from .engines.program import Layer

_IMAGE_CHANNELS = 4
"""Up to this many channels, the lanes hold a kernel's row: its pixels, padded to 4 channels."""
_ELEMENTS_OUT = 4
"""The cycles in which a block's channels leave the multipliers, at the least, for int8."""
_PIXELS = 16
"""Pixels are counted in whole groups of this size."""
_POOLINGS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
_SHARED = ("Add", "Clip", "Concat", "Conv", "Gemm", "LeakyRelu", "MatMul", "PRelu", "Relu")
"""What several cores compute together, by Rockchip's guide to the C API (matrix products run as
convolutions); other layers, and those with a look-up table, run on the first core."""
_CPU_ELEMENTS = 30e6
"""Elements a second of operators on the CPU: no more than their order of magnitude is known."""
_COPIES = frozenset({"Reshape"})
"""Operators that the CPU does by copying bytes."""
_ATTENTION = "exSDPAttention"
_SOFTMAX_STEPS = 7.0
_NORMALISING_STEPS = 3.4
_TRANSPOSING_STEPS = 3.3
"""How often an element passes where a table passes an int8 element once, by published times of
layers on RK3588 in float16 (docs/clock.md)."""
_STEPS = {
    "Softmax": _SOFTMAX_STEPS,
    "exSoftmax13": _SOFTMAX_STEPS,
    "LayerNormalization": _NORMALISING_STEPS,
    "InstanceNormalization": _NORMALISING_STEPS,
    "exNorm": _NORMALISING_STEPS,
    "Transpose": _TRANSPOSING_STEPS,
}


@dataclass(frozen=True)
class LayerTime:
    """One layer's time on a chip, as the runtime's table of layers gives it.

    `ddr_cycles` and `npu_cycles` are what memory and arithmetic take by the vendor's prediction, in
    cycles of the NPU: it has one for convolutions, and 0 for other layers. `mac_usage` is the
    multiply-accumulates done, as a share of what all `cores` asked for could do in the time;
    `cores` is how many share the layer.
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


def call_microseconds(layers: Iterable[Layer], soc: Soc, cores: int = 1) -> float:
    """The time of a call that runs these layers: theirs and its own."""
    times = estimate(layers, soc, cores)
    return sum(time.microseconds for time in times) + soc.cost.call * 1e6


def _estimate(layer: Layer, cost: Cost, cores: int) -> LayerTime:
    sharing = cores if _is_shared(layer) else 1
    moved = layer.read_bytes + layer.written_bytes
    # The cores share the memory: two published profiles of one network show Add 1.65 and Concat
    # 1.56 times as fast on three cores as on one.
    bandwidth = cost.bandwidth * math.sqrt(sharing)
    npu = max(_multiplying(layer, cost) / cost.utilisation, _one_by_one(layer, cost)) / sharing
    on_cpu = _elements(layer) if layer.on_cpu and layer.op_type not in _COPIES else 0
    busy = max(npu / cost.clock, on_cpu / _CPU_ELEMENTS)
    seconds = max(busy, moved / bandwidth) + cost.overhead
    peak = math.prod(cost.lanes(layer.dtype)) * cost.clock * cores
    return LayerTime(
        ddr_cycles=round(moved / cost.ddr_bytes) if layer.macs else 0,
        npu_cycles=round(_multiplying(layer, cost, packs_images=False)),
        microseconds=seconds * 1e6,
        mac_usage=layer.macs / (peak * seconds) if layer.macs else 0.0,
        cores=sharing,
    )


def _is_shared(layer: Layer) -> bool:
    is_named = layer.op_type.startswith(_SHARED) and not layer.op_type.startswith("ConvTranspose")
    return is_named and not layer.uses_table


def _multiplying(layer: Layer, cost: Cost, *, packs_images: bool = True) -> float:
    """Cycles of the multipliers: channels that fill no whole set of lanes take as long as it.

    The vendor counts like this, but for images.
    """
    if not layer.macs:
        return 0.0
    lanes_out, lanes_in = cost.lanes(layer.dtype)
    channels, places = layer.channels_in, math.prod(layer.kernel)
    pixels = layer.macs / (layer.channels_out * channels * places)
    if layer.is_depthwise:
        cycles = float(places * math.ceil(layer.channels_out / cost.depthwise_lanes))
    else:
        if packs_images and channels <= _IMAGE_CHANNELS and layer.kernel:
            channels, places = _IMAGE_CHANNELS * layer.kernel[-1], math.prod(layer.kernel[:-1])
        least = _ELEMENTS_OUT * lanes_out / cost.int8_lanes[0]
        cycles = max(places * math.ceil(channels / lanes_in), least)
        cycles *= math.ceil(layer.channels_out / lanes_out)
    return math.ceil(pixels / _PIXELS) * _PIXELS * cycles


def _one_by_one(layer: Layer, cost: Cost) -> float:
    """Cycles of the look-up table, the pooling unit and others that take elements one by one."""
    return _steps(layer, cost) / cost.elements_per_cycle


def _steps(layer: Layer, cost: Cost) -> float:
    elements = math.prod(layer.output)
    if layer.op_type in _POOLINGS:
        return _elements(layer)
    if layer.op_type == _ATTENTION:
        return _SOFTMAX_STEPS * _scores(layer)
    if layer.op_type in _STEPS:
        return 0.0 if _keeps_channels(layer) else _STEPS[layer.op_type] * elements
    if not layer.uses_table:
        return 0.0
    lanes = cost.int8_lanes[0] if layer.channels_out else 1
    channels = layer.channels_out or 1
    steps = 1.0 if layer.dtype is DType.INT8 else _float16_steps(cost)
    return elements * math.ceil(channels / lanes) * lanes / channels * steps


def _float16_steps(cost: Cost) -> float:
    """A float16 element is two int8 ones where the table takes several a cycle."""
    return min(2.0, max(1.0, cost.elements_per_cycle))


def _elements(layer: Layer) -> int:
    return max(map(math.prod, (layer.output, *layer.inputs[:1])))


def _scores(layer: Layer) -> int:
    """How many products of queries with keys an attention has: both are (heads, size, 1, n)."""
    if len(layer.inputs) < 2 or not all(layer.inputs[:2]):
        return 0
    queries, keys = layer.inputs[:2]
    return queries[0] * queries[-1] * keys[-1]


def _keeps_channels(layer: Layer) -> bool:
    """Whether a transposition of an image leaves the channels' axis: then it copies rows."""
    is_image = layer.op_type == "Transpose" and len(layer.output) == 4
    return is_image and layer.inputs[0][1:2] == layer.output[1:2]
