"""A compiled file as a program: what its layers are, their times, samples, cancelling, closing."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines import MissingOperatorError
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.program import CustomCall, Customization
from anynpu.tensor import DType

from .test_networks import FOLDER, archive_of


def program_of(name: str) -> CompiledProgram:
    """One of the small files: ``rk3576/cnn_i8``, ``rk3588_batch_float16``."""
    if "/" in name:
        return CompiledProgram(lzma.decompress((FOLDER / f"{name}.rknn.xz").read_bytes()))
    return CompiledProgram(archive_of(FOLDER / f"{name}.npz")[0])


def noise(arrays: tuple[NDArray[Any], ...]) -> None:
    rng = np.random.default_rng(5)
    for array in arrays:
        array[...] = rng.integers(-100, 100, array.shape)


class Copy(CustomCall):
    """Copies its input, and does once what is to be done then."""

    def __init__(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        self.inputs, self.outputs = (source,), (target,)
        self.then: list[Callable[[], None]] = []

    def run(self) -> None:
        np.copyto(self.outputs[0], self.inputs[0])
        while self.then:
            self.then.pop()()


def test_layers_are_the_network_s() -> None:
    program = program_of("rk3576/cnn_i8")
    lowered = program.lowered(0)
    assert lowered is program.lowered(0)
    layers = {layer.name: layer for layer in lowered.layers}
    assert [layer.op_type for layer in lowered.layers] == [
        "ConvRelu", "Conv", "MaxPool", "ConvLeakyRelu", "Concat", "Conv",
    ]  # fmt: skip
    first, depthwise, pool = layers["c1"], layers["c2"], layers["mp"]
    assert (first.channels_in, first.channels_out, first.kernel) == (3, 8, (3, 3))
    assert first.macs == 3 * 8 * 9 * (9 * 11)
    assert (first.inputs[0], first.output) == ((1, 3, 9, 11), (1, 8, 9, 11))
    assert (depthwise.is_depthwise, depthwise.channels_in, depthwise.channels_out) == (True, 1, 8)
    assert depthwise.macs == 8 * 9 * (9 * 11)
    assert (pool.macs, pool.kernel, pool.weight_bytes) == (0, (), 0)
    # Blocks of 16 channels, of which the last one is full.
    assert (pool.read_bytes, pool.written_bytes) == (16 * 9 * 11, 16 * 5 * 6)
    assert {layer.dtype for layer in lowered.layers} == {DType.INT8}
    assert not any(layer.on_cpu or layer.uses_table for layer in lowered.layers)


def test_layers_with_tables_and_on_the_cpu_are_told() -> None:
    (silu,) = program_of("rk3576/silu_i8").lowered(0).layers
    assert (silu.op_type, silu.uses_table) == ("ConvExSwish", True)
    layers = program_of("rk3588_deconv_stride3_int8").lowered(0).layers
    assert [layer.on_cpu for layer in layers] == [False, True, False]
    (half,) = program_of("rk3588_batch_float16").lowered(0).layers
    assert (half.dtype, half.inputs[0]) == (DType.FLOAT16, (2, 8, 3, 4))


@pytest.mark.parametrize(
    "name", ["rk3576/cnn_i8", "rk3588_deconv_stride3_int8", "rk3588_lstm_int8"]
)
def test_a_profile_runs_each_node_once_more_and_leaves_the_instance(name: str) -> None:
    program = program_of(name)
    instance = program.instance(0)
    noise(instance.inputs)
    instance.run()
    before = [array.copy() for array in instance.outputs]
    measured = program.profile(instance)
    for array, copy in zip(instance.outputs, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    lowered = program.lowered(0)
    wanted = {(layer.name, layer.op_type, layer.on_cpu) for layer in lowered.layers}
    assert wanted <= {(each.name, each.op_type, each.on_cpu) for each in measured}
    assert {each.dtype for each in measured} == {"int8"}
    assert all(each.kilobytes > 0 for each in measured if not each.on_cpu)


def test_samples_of_a_batch_are_computed_one_by_one() -> None:
    """A sample's results don't depend on those beside it."""
    program = program_of("rk3588_batch_float16")
    instance = program.instance(0)
    (source,), (target,) = instance.inputs, instance.outputs
    noise((source,))
    instance.run()
    first = target.copy()
    source[...] = source[::-1].copy()
    instance.run()
    np.testing.assert_array_equal(target, first[::-1])
    assert np.abs(first).max() > 0


def test_a_node_that_nobody_computes_fails_when_it_runs() -> None:
    program = program_of("rk3588_custom_int8")
    (node,) = program.custom_nodes(0)
    assert (node.op_type, node.name, node.is_foreign) == ("cstScale", "scale", True)
    assert program.refusals(0) == ()
    with pytest.raises(MissingOperatorError, match="cstScale"):
        program.instance(0).run()
    refusing = Customization({}, refused=frozenset({node.index}))
    with pytest.raises(MissingOperatorError, match="cstScale"):
        program.instance(0, refusing).run()


def test_a_run_that_is_cancelled_ends_between_two_calls_and_the_next_one_runs() -> None:
    program = program_of("rk3588_custom_int8")
    (node,) = program.custom_nodes(0)
    call = Copy(np.zeros((1, 8, 8, 8), np.float32), np.zeros((1, 8, 8, 8), np.float32))
    instance = program.instance(0, Customization({node.index: call}))
    call.then = [instance.cancel]
    noise(instance.inputs)
    with pytest.raises(ModelError, match="the run was cancelled"):
        instance.run()
    assert not instance.outputs[0].any()
    instance.run()
    assert instance.outputs[0].any()


def test_what_is_closed_may_be_cancelled_and_has_no_arrays() -> None:
    instance = program_of("rk3576/silu_i8").instance(0)
    instance.cancel()
    instance.run()  # a `cancel` before a run isn't meant for it
    instance.close()
    instance.cancel()
    assert instance.inputs == instance.outputs == ()
