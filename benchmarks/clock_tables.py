"""The tables of docs/clock.md: published times beside the model clock's estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.soc import SOCS, Soc
from anynpu.soft.clock import call_microseconds, estimate
from anynpu.soft.engines.program import Layer, LoweredModel
from anynpu.tensor import DType

from .clock_networks import profiled
from .published_times import CHIPS, FRAME_RATES, LAYER_TIMES, SINGLE_LAYERS

PREDICTED_CYCLES = Path(__file__).parents[1] / "tests" / "data" / "clock" / "predicted_cycles.txt"


def frame_rate(model: LoweredModel, soc: Soc) -> float:
    """Frames a second that the clock estimates for one core."""
    return 1e6 / call_microseconds(model.layers, soc)


def deviations(models: Mapping[str, LoweredModel], soc: Soc, chip: str) -> NDArray[np.float64]:
    """The logarithm of estimated over published frame rate, for each network."""
    ratios = [frame_rate(model, soc) / FRAME_RATES[name][chip] for name, model in models.items()]
    return np.log(ratios)


def rates(models: Mapping[str, LoweredModel], socs: Mapping[str, Soc] = SOCS) -> str:
    """Published and estimated frame rate, and how far the second is off, by network and chip."""
    lines = [_row("network", *map(_title, CHIPS)), _row(*["---"] * (1 + len(CHIPS)))]
    for name, model in models.items():
        cells = [_cell(FRAME_RATES[name][chip], frame_rate(model, socs[chip])) for chip in CHIPS]
        lines.append(_row(name, *cells))
    return "\n".join(lines)


def errors(deviations_by_chip: Mapping[str, NDArray[np.float64]]) -> str:
    """The root mean square of the deviations, and the largest, by chip."""
    lines = [_row("chip", "root mean square", "largest"), _row(*["---"] * 3)]
    for chip, values in deviations_by_chip.items():
        mean = math.sqrt(float(np.mean(values**2)))
        largest = math.expm1(float(np.abs(values).max()))
        lines.append(_row(_title(chip), f"{mean:.1%}", f"{largest:.0%}"))
    return "\n".join(lines)


def constants(socs: Mapping[str, Soc] = SOCS) -> str:
    """The fitted constants, by chip."""
    lines = [
        _row("chip", "utilisation", "elements a cycle", "bandwidth", "overhead"),
        _row(*["---"] * 5),
    ]
    for chip in CHIPS:
        cost = socs[chip].cost
        bandwidth, overhead = cost.bandwidth / 1e9, cost.overhead * 1e6
        values = (cost.utilisation, cost.elements_per_cycle, f"{bandwidth:.2f} GB/s")
        lines.append(_row(_title(chip), *map(str, values), f"{overhead:.1f} us"))
    return "\n".join(lines)


def layer_times(soc: Soc = SOCS["rk3588"]) -> str:
    """Published and estimated milliseconds of the profiled network, by kind of layer."""
    lines = [_row("layers", "published", "estimated"), _row(*["---"] * 3)]
    layers = profiled().layers
    estimates = list(zip(layers, estimate(layers, soc), strict=True))
    for kind, published in LAYER_TIMES.items():
        times = [time.microseconds for layer, time in estimates if layer.op_type == kind]
        cells = (f"{microseconds / 1000:.1f} ms" for microseconds in (published, sum(times)))
        lines.append(_row(f"{len(times)} {kind}", *cells))
    return "\n".join(lines)


def single_layers(soc: Soc = SOCS["rk3588"]) -> str:
    """Published and estimated microseconds of layers that were profiled one by one."""
    lines = [_row("layer", "type", "input", "output", "published", "estimated"), _row(*["---"] * 6)]
    for line in SINGLE_LAYERS.strip().splitlines():
        kind, dtype, source, weights, target, published = line.split()
        layer = _layer(soc, kind, dtype, source, weights, target)
        (time,) = estimate([layer], soc)
        cells = (kind, dtype, source, target, f"{published} us", f"{time.microseconds:.0f} us")
        lines.append(_row(*cells))
    return "\n".join(lines)


def predictions() -> Iterator[tuple[str, Layer, int, int]]:
    """Each chip's layers whose cycles the vendor's compiler predicted: of memory, of the NPU."""
    lines = [line for line in PREDICTED_CYCLES.read_text().splitlines() if line[0] != "#"]
    columns = [column.partition(":") for column in lines[0].split()[4:]]
    for line in lines[1:]:
        kind, source, weights, target, *pairs = line.split()
        for (chip, _, dtype), pair in zip(columns, pairs, strict=True):
            layer = _layer(SOCS[chip], kind, dtype, source, weights, target)
            ddr, npu = map(int, pair.split("/"))
            yield chip, layer, ddr, npu


def predicted_cycles() -> str:
    """How many of the predicted cycles the clock has, and how far its memory cycles are off."""
    lines = [_row("chip", "convolutions", "equal NPU cycles", "DDR cycles within 10%")]
    lines.append(_row(*["---"] * 4))
    found: dict[str, list[tuple[bool, bool]]] = {}
    for chip, layer, ddr, npu in predictions():
        (time,) = estimate([layer], SOCS[chip])
        is_close = abs(time.ddr_cycles / ddr - 1) < 0.1
        found.setdefault(chip, []).append((time.npu_cycles == npu, is_close))
    for chip, rows in found.items():
        counts = (len(rows), *(sum(column) for column in zip(*rows, strict=True)))
        lines.append(_row(_title(chip), *map(str, counts)))
    return "\n".join(lines)


def _layer(soc: Soc, kind: str, dtype_name: str, source: str, weights: str, target: str) -> Layer:
    """A layer of a compiled file, by its shapes: channels are stored in whole blocks."""
    data, output, dtype = _shape(source), _shape(target), DType[dtype_name.upper()]
    work: dict[str, Any] = {}
    constants = 0
    if weights != "-":
        filters, channels, *kernel = _shape(weights)
        if kind.startswith("ConvTranspose"):
            filters, channels = channels, filters
        is_depthwise = filters == 1 < channels == output[1]
        size = filters * channels * math.prod(kernel)
        constants = dtype.size_of(size) + output[1] * (8 if dtype is DType.INT8 else 4)
        work = {
            "macs": size * output[0] * math.prod(output[2:]),
            "channels_in": 1 if is_depthwise else channels,
            "channels_out": output[1],
            "kernel": tuple(kernel),
            "is_depthwise": is_depthwise,
        }
    return Layer(
        name=kind,
        op_type=kind,
        inputs=(data, data),
        output=output,
        dtype=dtype,
        read_bytes=_stored(soc, data, dtype) + constants,
        written_bytes=_stored(soc, output, dtype),
        uses_table="Ex" in kind,
        **work,
    )


def _stored(soc: Soc, shape: tuple[int, ...], dtype: DType) -> int:
    block = soc.channel_block(dtype)
    images, channels, *size = shape
    return dtype.size_of(images * math.ceil(channels / block) * block * math.prod(size))


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _title(chip: str) -> str:
    return "RK3566, RK3568" if chip == "rk3566" else chip.upper()


def _cell(published: float, estimated: float) -> str:
    error = round(estimated / published - 1, 2) + 0.0  # no negative zero
    return f"{published:.1f}, {estimated:.1f} ({error:+.0%})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
