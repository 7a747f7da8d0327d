"""The model clock: its arithmetic on small layers, its error on published networks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from anynpu.soc import SOCS, Cost, Soc, find
from anynpu.soft.clock import LayerTime, call_microseconds, estimate
from anynpu.soft.engines.program import Layer
from anynpu.tensor import DType
from benchmarks import clock_tables
from benchmarks.architectures import mobilenet
from benchmarks.clock_networks import rebuilt, unseen
from benchmarks.published_times import CHIPS

PAGE = (Path(__file__).parents[2] / "docs" / "clock.md").read_text()
MOST = 1.10
"""The page's promise: no rate of a network that the constants are fitted to is further off."""

CHIP = replace(
    find("rk3588"),
    cost=Cost(
        clock=1e9,
        int8_lanes=(4, 8),
        float16_lanes=(2, 8),
        depthwise_lanes=16,
        ddr_bytes=2.0,
        utilisation=0.5,
        elements_per_cycle=2.0,
        bandwidth=1e9,  # a byte a cycle
        overhead=3e-6,
        call=7e-6,
    ),
)
POINTWISE = Layer(
    name="conv",
    op_type="Conv",
    inputs=((1, 16, 10, 10), (8, 16, 1, 1)),
    output=(1, 8, 10, 10),
    dtype=DType.INT8,
    macs=100 * 16 * 8,
    channels_in=16,
    channels_out=8,
    kernel=(1, 1),
)
COPY = Layer("copy", "Concat", ((1, 8, 10, 10),), (1, 8, 10, 10), DType.INT8)


def time_of(layer: Layer, cores: int = 1, chip: Soc = CHIP) -> LayerTime:
    (time,) = estimate([layer], chip, cores)
    return time


# ----------------------------------------------------------------------------- small layers


def test_a_convolution_takes_the_cycles_of_its_sets_of_lanes() -> None:
    """112 pixels (100 in sixteens), 16 channels in 8 lanes (4 cycles at least), 8 out of 4."""
    time = time_of(POINTWISE)
    assert time.npu_cycles == time.total_cycles == 112 * 4 * 2
    assert time.ddr_cycles == 0
    assert time.microseconds == pytest.approx(0.896 / 0.5 + 3)


def test_channels_that_fill_no_set_of_lanes_cost_a_whole_one() -> None:
    narrow = replace(POINTWISE, macs=100 * 9 * 5, channels_in=9, channels_out=5)
    assert time_of(narrow).npu_cycles == time_of(POINTWISE).npu_cycles


def test_float16_has_its_own_lanes() -> None:
    """Two channels out leave in two cycles."""
    assert time_of(replace(POINTWISE, dtype=DType.FLOAT16)).npu_cycles == 112 * 2 * 4


def test_a_depthwise_convolution() -> None:
    """20 channels are two sets of 16, for each of 9 places of the kernel and 112 pixels."""
    layer = replace(
        POINTWISE, macs=100 * 9 * 20, channels_in=1, channels_out=20, kernel=(3, 3),
        is_depthwise=True,
    )  # fmt: skip
    assert time_of(layer).npu_cycles == 2 * 9 * 112
    assert time_of(replace(layer, dtype=DType.FLOAT16)).npu_cycles == 2 * 9 * 112


def test_an_image_fills_the_lanes_with_a_row_of_the_kernel() -> None:
    """3 pixels of 4 channels are two sets of 8 lanes, in each of 3 rows; the vendor counts 9."""
    layer = replace(POINTWISE, macs=100 * 9 * 3 * 4, channels_in=3, channels_out=4, kernel=(3, 3))
    assert time_of(layer).npu_cycles == 112 * 9
    assert time_of(layer).microseconds == pytest.approx(0.112 * 3 * 2 / 0.5 + 3)


def test_the_longer_of_memory_and_arithmetic_counts() -> None:
    time = time_of(replace(POINTWISE, read_bytes=2600, written_bytes=400))
    assert (time.ddr_cycles, time.npu_cycles, time.total_cycles) == (1500, 896, 1500)
    assert time.microseconds == pytest.approx(3.0 + 3)


def test_a_call_takes_time_itself() -> None:
    assert call_microseconds([COPY, COPY], CHIP) == pytest.approx(2 * 3 + 7)


def test_a_look_up_table_takes_elements_one_by_one() -> None:
    """A convolution's channels count in whole sets of lanes."""
    layer = replace(POINTWISE, macs=0, channels_out=5, output=(1, 5, 10, 10), uses_table=True)
    assert time_of(layer).microseconds == pytest.approx(8 * 0.1 / 2 + 3)
    assert time_of(replace(COPY, op_type="Sigmoid", uses_table=True)).microseconds == pytest.approx(
        0.8 / 2 + 3
    )


@pytest.mark.parametrize(("elements", "steps"), [(0.5, 1.0), (1.5, 1.5), (4.0, 2.0)])
def test_a_table_takes_a_float16_element_a_cycle_or_half_of_the_int8_ones(
    elements: float, steps: float
) -> None:
    chip = replace(CHIP, cost=replace(CHIP.cost, elements_per_cycle=elements))
    layer = replace(COPY, op_type="Sigmoid", uses_table=True, dtype=DType.FLOAT16)
    assert time_of(layer, chip=chip).microseconds == pytest.approx(0.8 * steps / elements + 3)


def test_pooling_takes_elements_one_by_one() -> None:
    layer = replace(COPY, op_type="MaxPool", output=(1, 8, 5, 5))
    assert time_of(layer).microseconds == pytest.approx(0.8 / 2 + 3)


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "elements"),
    [
        ("Softmax", ((1, 100, 8),), (1, 100, 8), 7 * 800),
        ("exNorm", ((1, 8, 1, 100),), (1, 8, 1, 100), 3.4 * 800),
        ("Transpose", ((1, 8, 10, 10),), (1, 10, 10, 8), 3.3 * 800),
        ("Transpose", ((1, 8, 10, 10),), (10, 8, 1, 10), 0),
        ("exSDPAttention", ((2, 4, 1, 5), (2, 4, 1, 6), (2, 4, 1, 6)), (2, 4, 1, 5), 7 * 2 * 5 * 6),
        ("exSDPAttention", ((),), (2, 4, 1, 5), 0),
    ],
)
def test_attention_takes_several_steps_for_an_element(
    kind: str, inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...], elements: float
) -> None:
    time = time_of(Layer("?", kind, inputs, output, DType.FLOAT16))
    assert time.microseconds == pytest.approx(elements / 1000 / 2 + 3)


def test_the_cpu_is_slow_but_where_it_copies() -> None:
    layer = replace(COPY, op_type="Softmax", on_cpu=True)
    assert time_of(layer).microseconds == pytest.approx(800 / 30 + 3)
    assert time_of(replace(layer, op_type="Reshape")).microseconds == pytest.approx(3)


def test_a_layer_of_nothing_takes_the_overhead() -> None:
    time = time_of(Layer("?", "Conv", ((),), (), DType.FLOAT16))
    assert (time.total_cycles, time.mac_usage) == (0, 0.0)
    assert time.microseconds == pytest.approx(3)


def test_mac_usage_is_a_share_of_what_the_lanes_could_do() -> None:
    perfect = replace(CHIP, cost=replace(CHIP.cost, utilisation=1.0, overhead=0.0))
    full = replace(POINTWISE, macs=112 * 32 * 8, channels_in=32)
    assert time_of(full, chip=perfect).mac_usage == pytest.approx(1)
    assert time_of(full, chip=perfect, cores=2).mac_usage == pytest.approx(1)
    assert time_of(full).mac_usage == pytest.approx(0.896 / (0.896 / 0.5 + 3))


# ------------------------------------------------------------------------------ several cores


@pytest.mark.parametrize("kind", ["Conv", "ConvAddRelu", "Gemm"])
def test_cores_share_convolutions(kind: str) -> None:
    time = time_of(replace(POINTWISE, op_type=kind), cores=2)
    assert time.cores == 2
    assert time.microseconds == pytest.approx(0.896 / 0.5 / 2 + 3)


def test_cores_share_the_memory() -> None:
    layer = replace(COPY, read_bytes=8000, written_bytes=8000)
    alone, shared = time_of(layer), time_of(layer, cores=3)
    assert shared.cores == 3
    assert 1 < (alone.microseconds - 3) / (shared.microseconds - 3) < 3


@pytest.mark.parametrize(
    "layer",
    [
        replace(POINTWISE, op_type="ConvExSwish", uses_table=True),
        replace(POINTWISE, op_type="ConvTranspose"),
        replace(COPY, op_type="MaxPool"),
    ],
)
def test_other_layers_stay_on_one_core(layer: Layer) -> None:
    time = time_of(layer, cores=3)
    assert time.cores == 1
    assert time.microseconds == time_of(layer).microseconds


@pytest.mark.parametrize(("name", "cores"), [("rk3588", 0), ("rk3588", 4), ("rk3566", 2)])
def test_a_chip_has_the_cores_it_has(name: str, cores: int) -> None:
    with pytest.raises(ValueError, match="cores"):
        estimate([POINTWISE], find(name), cores)


# ---------------------------------------------------------------------------- whole networks


def test_every_chip_has_plausible_constants() -> None:
    for soc in SOCS.values():
        peak = 2 * math.prod(soc.cost.int8_lanes) * soc.cost.clock * soc.cores
        assert 0.4e12 <= peak <= 6.2e12
        assert math.prod(soc.cost.float16_lanes) < math.prod(soc.cost.int8_lanes)


PUBLISHED = {
    "mobilenetv2-12": (0.30, 3.5),
    "resnet50-v2-7": (4.1, 25.6),
    "yolov5n": (2.25, 1.9),
    "yolov5s": (8.25, 7.2),
    "yolov5m": (24.5, 21.2),
    "yolov6n": (5.7, 4.7),
    "yolov6s": (22.65, 18.5),
    "yolov7-tiny": (6.85, 6.2),
    "yolov8n": (4.35, 3.2),
    "yolov8s": (14.3, 11.2),
    "yolov8m": (39.45, 25.9),
}
"""Billions of multiply-accumulates and millions of parameters, as the authors give them (for the
detectors half of their FLOPs)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_rebuilt_networks_are_the_published_ones(name: str) -> None:
    gigamacs, millions = PUBLISHED[name]
    model = rebuilt()[name]
    assert sum(layer.macs for layer in model.layers) / 1e9 == pytest.approx(gigamacs, rel=0.02)
    assert model.weight_bytes / 1e6 == pytest.approx(millions, rel=0.03), "a byte for each"


def test_a_rebuilt_network_is_valid_onnx() -> None:
    import onnx

    onnx.checker.check_model(mobilenet.build(), full_check=True)


@pytest.mark.parametrize("chip", CHIPS)
def test_estimates_are_as_close_as_the_page_says(chip: str) -> None:
    errors = clock_tables.deviations(rebuilt(), SOCS[chip], chip)
    assert abs(errors).max() < math.log(MOST)


def test_the_page_has_the_tables_that_the_constants_give() -> None:
    assert clock_tables.constants() in PAGE
    assert clock_tables.rates(rebuilt()) in PAGE
    assert clock_tables.layer_times() in PAGE
    assert clock_tables.single_layers() in PAGE
    assert clock_tables.predicted_cycles() in PAGE
    found = {chip: clock_tables.deviations(rebuilt(), SOCS[chip], chip) for chip in CHIPS}
    assert clock_tables.errors(found) in PAGE


def test_the_page_has_the_networks_that_were_not_fitted(ocr_models: Path) -> None:
    assert ocr_models.is_dir()
    assert clock_tables.rates(unseen()) in PAGE


def test_cycles_are_those_that_the_vendor_s_compiler_predicts() -> None:
    for chip, layer, ddr, npu in clock_tables.predictions():
        (time,) = estimate([layer], SOCS[chip])
        assert time.npu_cycles == npu
        if layer.read_bytes + layer.written_bytes > 1e5:
            assert time.ddr_cycles == pytest.approx(ddr, rel=0.08)


@pytest.mark.nightly
@pytest.mark.parametrize("chip", CHIPS)
def test_the_constants_are_those_that_fit_best(chip: str) -> None:
    from benchmarks.clock_fit import fit, left_out

    found, ours = fit(rebuilt(), chip).cost, SOCS[chip].cost
    assert found.utilisation == pytest.approx(ours.utilisation, rel=0.05)
    assert found.elements_per_cycle == pytest.approx(ours.elements_per_cycle, rel=0.05)
    assert found.bandwidth == pytest.approx(ours.bandwidth, rel=0.05)
    assert found.overhead == pytest.approx(ours.overhead, abs=1e-6)
    assert abs(left_out(chip)).max() < math.log(1.25)


def test_three_cores_help_a_network_with_look_up_tables_little() -> None:
    """SiLU stays on one core; ReLU doesn't."""
    chip = find("rk3588")

    def gain(name: str) -> float:
        times = [
            sum(time.microseconds for time in estimate(rebuilt()[name].layers, chip, cores))
            for cores in (1, 3)
        ]
        return times[0] / times[1]

    assert 1.0 < gain("yolov8n") < 1.2
    assert gain("yolov5s_relu") > 1.5
