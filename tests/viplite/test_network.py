"""Networks as Python objects, on the soft NPU."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import DType, Layout, Quantization
from anynpu.soft import faults
from anynpu.viplite import abi
from anynpu.viplite.buffer import Buffer
from anynpu.viplite.formats import encode
from anynpu.viplite.layer_dump import LayerDump
from anynpu.viplite.library import VipliteLibrary, load
from anynpu.viplite.network import Network
from anynpu.viplite.runtime import Handle, runtime_of

from .. import models
from ..soft.viplite.client import network_file, relu, slow

SHAPE = (1, 3, 4, 5)
VALUES = np.arange(60, dtype=np.uint8).reshape(SHAPE) + 100


def ready(network: Network) -> tuple[Buffer, Buffer]:
    network.prepare()
    return network.new_input(0), network.new_output(0)


def run_relu(network: Network, source: Buffer, target: Buffer, values: np.ndarray = VALUES) -> None:
    """Relu of what stands for (q - 125) / 2: what is below 125 becomes 125."""
    source.array()[...] = values
    source.flush()
    network.run()
    target.invalidate()
    np.testing.assert_array_equal(target.array(), np.maximum(values, 125))


def test_descriptions(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network:
        (info,) = network.inputs
        assert str(info) == "x: UINT8 1x3x4x5 NCHW scale 0.5 zero point 125"
        assert (info.shape, info.layout, info.size) == (SHAPE, Layout.NCHW, 60)
        (info,) = network.outputs
        assert (info.name, info.dtype) == ("y", DType.UINT8)
        assert info.quantization == Quantization(0.5, 125)
        assert network.name == "test"
        assert network.layer_count >= 1
        assert network.core_count == 1
        assert network.memory_pool_size == 0  # one operator has no results in between
        assert network.library is vip


def test_other_formats_are_described(vip: VipliteLibrary) -> None:
    edges = {"x": Quantization.fixed_point(7), "y": Quantization.fixed_point(4)}
    with Network(network_file(models.add_one((2, 6)), edges=edges), library=vip) as network:
        (info,) = network.inputs
        assert (info.dtype, info.layout, info.shape) == (DType.INT16, Layout.UNDEFINED, (2, 6))
        assert info.quantization == Quantization(2.0**-7, 0, binary_point=7)
        assert str(info) == "x: INT16 2x6 UNDEFINED fixed point 7"
    with Network(network_file(models.two_inputs()), library=vip) as network:
        assert [info.name for info in network.inputs] == ["a", "b"]
        assert [info.name for info in network.outputs] == ["sum", "difference"]
        assert {info.dtype for info in network.inputs} == {DType.FLOAT16}
        assert network.inputs[0].quantization is None


@pytest.mark.parametrize("kind", ["path", "text", "bytes"])
def test_a_network_from_each_kind_of_model(kind: str, tmp_path: Path, vip: VipliteLibrary) -> None:
    file = tmp_path / "modèle.nb"
    file.write_bytes(relu())
    kinds: dict[str, Path | str | bytes] = {"path": file, "text": str(file)}
    kinds["bytes"] = bytes(bytearray(relu()))
    model = kinds.pop(kind)
    del kinds
    with Network(model, library=vip) as network:
        del model
        gc.collect()
        run_relu(network, *ready(network))


def test_bad_models(tmp_path: Path, vip: VipliteLibrary) -> None:
    with pytest.raises(anynpu.ModelError, match="0 bytes"):
        Network(b"", library=vip)
    with pytest.raises(anynpu.InvalidModelError, match="VIP_ERROR_INVALID_NETWORK"):
        Network(b"VPMN" + bytes(100), library=vip)
    with pytest.raises(FileNotFoundError, match=r"no model file .*nothing\.nb"):
        Network(tmp_path / "nothing.nb", library=vip)


def test_a_network_for_another_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "t527")
    with pytest.raises(anynpu.InvalidModelError, match=r"NOT_SUPPORTED.*another NPU"):
        Network(relu("a733"), library="soft")
    with Network(relu("t527"), library="soft") as network:
        assert network.library.interface is abi.Interface.V1_13
        run_relu(network, *ready(network))


def test_the_old_interface_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "v853")
    with Network(relu("v853")) as network:
        assert network.library.interface is abi.Interface.V85X
        run_relu(network, *ready(network))


def test_the_order_of_calls(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network:
        with pytest.raises(anynpu.CallError, match="NETWORK_NOT_PREPARED"):
            network.run()
        states = [network.is_prepared]
        network.prepare()
        states.append(network.is_prepared)
        with pytest.raises(anynpu.CallError, match="MISSING_INPUT_OUTPUT") as caught:
            network.run()
        assert "without a buffer: input x: UINT8 1x3x4x5" in str(caught.value)
        assert "output y: UINT8" in str(caught.value)
        network.new_input(0)
        with pytest.raises(anynpu.CallError) as caught:
            network.trigger()
        assert "input x" not in str(caught.value)
        run_relu(network, network.new_input(0), network.new_output(0))
        network.finish()
        assert [*states, network.is_prepared] == [False, True, False]
        with pytest.raises(anynpu.CallError, match="NETWORK_NOT_PREPARED"):
            network.run()


def test_use_after_close(vip: VipliteLibrary) -> None:
    network = Network(relu(), library=vip)
    network.prepare()
    network.close()
    network.close()
    for call in (network.run, network.prepare, network.wait, network.cancel, network.finish):
        with pytest.raises(anynpu.ClosedError):
            call()
    with pytest.raises(anynpu.ClosedError):
        _ = network.name


def test_trigger_and_wait(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network:
        source, target = ready(network)
        source.array()[...] = VALUES
        source.flush()
        network.trigger()
        network.wait()
        target.invalidate()
        np.testing.assert_array_equal(target.array(), np.maximum(VALUES, 125))
        network.wait()


def test_cancelling(vip: VipliteLibrary) -> None:
    with Network(slow(), library=vip) as network:
        ready(network)
        network.trigger()
        network.cancel()
        with pytest.raises(anynpu.CallCancelledError, match="VIP_ERROR_CANCELED"):
            network.wait()
        network.cancel()


def test_cancelling_another_thread_s_run(vip: VipliteLibrary) -> None:
    with Network(slow(), library=vip) as network:
        ready(network)
        caught: list[BaseException] = []

        def run() -> None:
            try:
                network.run()
            except anynpu.CallCancelledError as error:
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            network.cancel()
            time.sleep(0.001)
        thread.join()
        assert len(caught) == 1


def test_a_run_that_takes_too_long(vip: VipliteLibrary) -> None:
    with Network(slow(), library=vip) as network:
        network.set_timeout(1)
        ready(network)
        with pytest.raises(anynpu.CallTimeoutError, match="vip_run_network returned VIP_ERROR_TI"):
            network.run()


def test_properties(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network:
        network.set_priority(255)
        network.set_device(0)
        network.set_core(0)
        network.set_npd(True)
        network.set_sram_preload(False)
        network.set_operation_range(0, network.layer_count)
        network.set_timeout(60_000)
        pool = Buffer.allocate(network.inputs[0], library=vip)
        network.set_memory_pool(pool)
        network.set_coefficient_memory(pool)
        with pytest.raises(ValueError, match="256"):
            network.set_priority(256)
        with pytest.raises(anynpu.InvalidArgumentError, match="SET_DEVICE_ID = 7"):
            network.set_device(7)
        with pytest.raises(anynpu.InvalidArgumentError, match="operations 9 to 1"):
            network.set_operation_range(9, 1)
        run_relu(network, *ready(network))
        assert network.run_time().microseconds > 0
        pool.close()  # the network still needs it, so it goes with the network


def test_what_the_soft_npu_does_not_support(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network:
        with pytest.raises(anynpu.CallError, match="NOT_SUPPORTED"):
            network.set_ppu_change(True)
        with pytest.raises(anynpu.CallError, match="NOT_SUPPORTED"):
            network.keep_layer_outputs([0])
        with pytest.raises(anynpu.StateError, match="no layers are kept"):
            network.layer_outputs()
        network.prepare()
        with pytest.raises(anynpu.CallError, match="vip_set_ppu_param returned VIP_ERROR_NOT_SU"):
            network.set_ppu_param(abi.PpuParam(work_dim=1), 2)


def test_duplicates_share_and_outlive_the_original(vip: VipliteLibrary, tmp_path: Path) -> None:
    file = tmp_path / "relu.nb"
    file.write_bytes(relu())
    original = Network(file, library=vip)
    original.prepare()
    duplicates = [original.dup(), original.dup(file), original.dup(relu()), original.weak_dup()]
    before = runtime_of(vip).users
    original.close()
    assert runtime_of(vip).users == before  # its handle stays for the duplicates
    for duplicate in duplicates:
        assert duplicate.inputs == duplicates[0].inputs
        run_relu(duplicate, *ready(duplicate))
    for duplicate in duplicates:
        duplicate.close()
    assert runtime_of(vip).users < before - len(duplicates)


def test_a_duplicate_of_another_model_is_refused(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network, pytest.raises(anynpu.CallError):
        network.dup(network_file(models.two_inputs()))


def test_a_twin_computes_a_compiled_model(vip: VipliteLibrary, tmp_path: Path) -> None:
    twin = tmp_path / "elsewhere.onnx"
    twin.write_bytes(models.quantized(SHAPE, dtype=np.uint8, zero_point=125))
    with Network(relu(), library=vip, twin=twin) as network:
        run_relu(network, *ready(network))
    missing = Network(relu(), library=vip, twin=tmp_path / "nothing.onnx")
    with missing, pytest.raises(anynpu.CallError):
        missing.prepare()


def test_a_buffer_that_is_too_small(vip: VipliteLibrary) -> None:
    small = network_file(models.add_one((1, 2)))
    with Network(relu(), library=vip) as network, Network(small, library=vip) as other:
        network.prepare()
        buffer = Buffer.allocate(other.inputs[0], library=vip)
        with pytest.raises(anynpu.TensorError, match=r"input x.*takes 60 bytes; the buffer has 4"):
            network.set_input(0, buffer)
        with pytest.raises(IndexError):
            network.set_input(1, buffer)


def test_buffers_live_as_long_as_a_network_has_them(vip: VipliteLibrary) -> None:
    network = Network(relu(), library=vip)
    source, target = ready(network)
    users = runtime_of(vip).users
    source.array()[...] = VALUES
    source.flush()
    source.close()
    with pytest.raises(anynpu.ClosedError):
        source.flush()
    assert runtime_of(vip).users == users
    network.run()
    np.testing.assert_array_equal(target.array(), np.maximum(VALUES, 125))
    network.new_input(0)  # now nothing needs the first one
    assert runtime_of(vip).users == users
    network.close()
    assert runtime_of(vip).users == users - 2  # the array below still needs its buffer
    target.close()


def test_a_forgotten_network_goes(vip: VipliteLibrary) -> None:
    gc.disable()
    try:
        before = runtime_of(vip).users
        network = Network(relu(), library=vip)
        source, target = ready(network)
        del network, source, target
        assert runtime_of(vip).users == before
    finally:
        gc.enable()


def test_calls_that_fail_leave_nothing_behind(
    vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = runtime_of(vip).users
    calls = ("vip_create_network", "vip_query_network", "vip_query_input", "vip_query_output")
    for call in calls:
        monkeypatch.setenv("ANYNPU_SOFT_FAULTS", f"{call}=FAILURE")
        faults.reset()
        with pytest.raises(anynpu.CallError, match=f"{call} returned VIP_ERROR_FAILURE"):
            Network(relu(), library=vip)
        assert runtime_of(vip).users == before
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "vip_init=OUT_OF_MEMORY")
    faults.reset()
    if not before:
        with pytest.raises(anynpu.OutOfMemoryError, match="vip_init"):
            Network(relu(), library=vip)
    assert runtime_of(vip).users == before


def test_names_that_a_library_cannot_tell(
    vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old libraries don't know the property: the eighth query of a tensor."""
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "vip_query_input@3=NOT_SUPPORTED")
    faults.reset()
    with Network(relu(), library=vip) as network:
        assert network.inputs[0].name == "#0"


def test_strict_caches_see_every_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    with Network(relu(), library="soft") as network:
        run_relu(network, *ready(network))


def test_networks_of_threads_do_not_mix(vip: VipliteLibrary) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(5):
                with Network(relu(), library=vip) as network:
                    buffers = ready(network)
                    for _ in range(5):
                        values = rng.integers(0, 256, SHAPE).astype(np.uint8)
                        run_relu(network, *buffers, values)
                    del buffers
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


class _Layers:
    """A library that keeps layers, which the soft NPU doesn't."""

    def __init__(self) -> None:
        self.values = (ctypes.c_int16 * 6)(*range(0, 60, 10))
        self.info = (abi.LayerOutput * 1)()
        self.wanted: list[int] = []

    def vip_set_network(self, network: int, prop: int, value: object) -> int:
        ids = value._obj  # type: ignore[attr-defined]
        self.wanted = ids.layer_id[: ids.layer_count]
        return 0

    def vip_query_network(self, network: int, prop: int, value: object) -> int:
        info = self.info[0]
        info.layer_name, info.layer_id, info.uid = b"conv", 3, 7
        info.param.dim_count = 2
        info.param.dim_size[:2] = [3, 2]
        info.param.data_format = abi.BufferFormat.INT16
        info.param.quant_format = abi.QuantizeFormat.DYNAMIC_FIXED_POINT
        info.param.quant_data.dfp.fixed_point_pos = 4
        info.size = ctypes.sizeof(self.values)
        found = value._obj  # type: ignore[attr-defined]
        found.count, found.info = 1, self.info
        return 0


def test_layers_that_are_kept() -> None:
    library, handle = _Layers(), Handle.__new__(Handle)
    handle.library = library  # type: ignore[assignment]
    handle._is_closing, handle._value = False, 1
    dump = LayerDump(handle, [3, 5])
    assert library.wanted == [3, 5]
    with pytest.raises(anynpu.StateError, match="conv:0"):
        dump.outputs()
    library.info[0].memory = ctypes.addressof(library.values)
    (output,) = dump.outputs()
    assert (output.layer, output.layer_id) == ("conv", 3)
    assert str(output.info) == "conv:0: INT16 2x3 UNDEFINED fixed point 4"
    np.testing.assert_array_equal(output.values, [[0, 10, 20], [30, 40, 50]])


def test_encoding_into_a_buffer(vip: VipliteLibrary) -> None:
    with Network(relu(), library=vip) as network:
        source, target = ready(network)
        real = np.linspace(-10, 20, 60, dtype=np.float32).reshape(SHAPE)
        encode(real, source.info, source.array())
        source.flush()
        network.run()
        target.invalidate()
        expected = np.rint(np.maximum(real, 0) / 0.5) + 125
        assert np.abs(target.array() - expected).max() <= 1


def test_a_library_is_shared_by_name(vip: VipliteLibrary) -> None:
    assert runtime_of(load("soft")) is runtime_of(vip)
