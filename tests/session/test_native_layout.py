"""Sessions whose tensors live in the device's memory: `output_layout` "native", and RV1106."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession
from anynpu.backends.rknn import zero_copy_network

from .. import models

RNG = np.random.default_rng(11)
SMALL = {"anynpu.soc": "rv1106"}
IMAGE = (1, 3, 6, 7)


def opened(model: bytes | Path, **options: Any) -> InferenceSession:
    return InferenceSession(model, provider_options=options)


def relu(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `models.quantized` computes."""
    stored = np.clip(np.round(values / 0.5) - 3, -128, 127)
    return (np.maximum(stored, -3) + 3) * 0.5


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float16, np.int32])
@pytest.mark.parametrize("layout", ["original", "nhwc"])
def test_native_results_are_the_general_ones_in_channel_blocks(dtype: type, layout: str) -> None:
    shape = (1, 20, 6, 7)
    values: np.ndarray[Any, Any] = RNG.integers(0, 60, shape).astype(dtype)
    given = values.transpose(0, 2, 3, 1) if layout == "nhwc" else values
    with opened(models.quantized(shape), output_layout="native", layout=layout) as session:
        (result,) = session.get_outputs()
        assert (result.shape, result.layout) == ([1, 2, 6, 7, 16], anynpu.Layout.NC1HWC2)
        (blocks,) = session.run(None, {"x": given})
        assert blocks.dtype == np.float32
    np.testing.assert_array_equal(anynpu.nc1hwc2_to_nchw(blocks, 20), relu(values))


def test_raw_channel_blocks_are_arrays_of_the_caller_s_own() -> None:
    model = models.quantized(IMAGE)
    with opened(model, output_layout="native", output_dtype="model") as session:
        first, second = (session.run(None, [np.full(IMAGE, v, np.float32)])[0] for v in (1, 2))
    assert first.dtype == np.int8
    assert (anynpu.nc1hwc2_to_nchw(first, 3) == -1).all()
    assert (anynpu.nc1hwc2_to_nchw(second, 3) == 1).all()


def test_a_float_model_s_channel_blocks() -> None:
    values = RNG.normal(size=(1, 3, 4, 5)).astype(np.float32)
    with opened(models.add_one(), output_layout="native") as session:
        (blocks,) = session.run(None, [values])
    assert blocks.dtype == np.float32
    expected = (values.astype(np.float16) + np.float16(1)).astype(np.float32)
    np.testing.assert_allclose(anynpu.nc1hwc2_to_nchw(blocks, 3), expected, atol=2e-3)


def test_requests_of_several_dtypes_take_turns_on_every_worker() -> None:
    model = models.quantized(IMAGE)
    with opened(model, output_layout="native", dispatch="round_robin") as session:
        for round_number in range(6):
            for dtype in (np.uint8, np.float32):
                values = np.full(IMAGE, round_number, dtype)
                (blocks,) = session.run(None, [values])
                np.testing.assert_array_equal(
                    anynpu.nc1hwc2_to_nchw(blocks, 3), np.full(IMAGE, round_number)
                )


def test_tensors_that_are_no_images_keep_their_shape() -> None:
    with opened(models.two_inputs(), output_layout="native") as session:
        a, b = np.ones((2, 3), np.float32), np.full((2, 3), 0.5, np.float32)
        total, difference = session.run(None, {"a": a, "b": b})
    assert (total == 1.5).all()
    assert (difference == 0.5).all()


def test_a_dynamic_model_is_refused() -> None:
    with pytest.raises(anynpu.OptionError, match="one set of input shapes"):
        opened(models.dynamic(), output_layout="native")


# ------------------------------------------------------------------- a runtime with nothing else


@pytest.mark.parametrize("channels", [1, 3, 20])
def test_a_session_on_rv1106(channels: int) -> None:
    shape = (1, channels, 6, 7)
    pixels = RNG.integers(0, 60, shape).astype(np.uint8)
    with opened(models.quantized(shape, metadata=SMALL)) as session:
        assert session.get_inputs()[0].shape == list(shape)
        assert session.get_outputs()[0].shape == list(shape)
        (result,) = session.run(None, {"x": pixels})
        (again,) = session.submit(None, {"x": pixels}).result(30)
    for found in (result, again):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, relu(pixels))


def test_results_as_the_model_has_them_on_rv1106() -> None:
    pixels = RNG.integers(0, 60, IMAGE).astype(np.uint8)
    model = models.quantized(IMAGE, metadata=SMALL)
    expected = relu(pixels) * 2 - 3
    with opened(model, output_dtype="model", output_layout="nhwc") as session:
        (result,) = session.run(None, [pixels])
        assert result.dtype == np.int8
        np.testing.assert_array_equal(result, expected.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int32, np.bool_, np.uint8])
@pytest.mark.parametrize("shape", [IMAGE, (1, 1, 6, 7), (1, 20, 6, 7), (2, 6)])
def test_rv1106_takes_every_type(shape: tuple[int, ...], dtype: type) -> None:
    """Its runtime converts bytes of pictures only: the rest is quantised and packed here."""
    values = RNG.normal(30, 20, shape).clip(-100, 100)
    given: np.ndarray = (values.clip(0) if dtype == np.uint8 else values).astype(dtype)
    model = models.quantized(shape, metadata=SMALL)
    expected = relu(given.astype(np.float32))
    with opened(model) as session:
        (result,) = session.run(None, [given])
        (again,) = session.submit(None, [np.asfortranarray(given)]).result(30)
    with anynpu.Model(model) as direct:
        direct.run(given)
        raw = direct.output_f32(0)
    for found in (result, again, raw):
        np.testing.assert_array_equal(found, expected)


def test_pictures_are_normalised_here_for_rv1106() -> None:
    metadata = SMALL | {
        "anynpu.mean": '{"x": [10, 20, 30]}',
        "anynpu.std": '{"x": [2, 4, 5]}',
    }
    mean, std = (np.array(each, np.float32)[:, None, None] for each in ([10, 20, 30], [2, 4, 5]))
    model = models.quantized(IMAGE, metadata=metadata)
    values = RNG.uniform(0, 60, IMAGE).astype(np.float32)
    with opened(model) as session, anynpu.Model(model) as direct:
        for given in (values, np.round(values).astype(np.uint8), values):
            expected = relu((given.astype(np.float32) - mean) / std)
            np.testing.assert_array_equal(session.run(None, [given])[0], expected)
            direct.run(given)
            np.testing.assert_array_equal(direct.output_f32(0), expected)


@pytest.mark.parametrize("name", ["conv3x3_i8", "smallcnn_i8", "ppocr_cls_i8", "add_i8"])
def test_real_values_for_a_compiled_file_of_rv1106(
    name: str, compiled_sample: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    file = compiled_sample(f"rv1106/{name}")
    archive = np.load(file.with_suffix(".npz"))
    arrays = [archive[key] for key in archive if key.startswith("in")]
    with opened(file) as session:
        (result,) = session.run(None, arrays)
        (node,) = session.get_outputs()
    # The simulator rounds ties in another way.
    assert np.abs(result - archive["sim0"]).max() <= 1.01 * node.scale
    assert capfd.readouterr().err == ""


def test_a_file_that_does_not_tell_how_pictures_are_normalised(
    compiled_sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zero_copy_network, "read_normalizations", lambda model, names: (None,))
    with opened(compiled_sample("rv1106/smallcnn_i8")) as session:
        session.run(None, [np.zeros((1, 3, 32, 32), np.uint8)])
        with pytest.raises(anynpu.TensorError, match=r"takes pictures of uint8 here, found float"):
            session.run(None, [np.zeros((1, 3, 32, 32), np.float32)])


def test_vectors_are_quantised_for_rv1106() -> None:
    values = RNG.normal(0, 10, (2, 6)).astype(np.float32)
    with opened(models.quantized((2, 6), metadata=SMALL)) as session:
        (result,) = session.run(None, [values])
    np.testing.assert_array_equal(result, relu(values))


def test_threads_get_their_own_results_on_rv1106() -> None:
    wrong: list[int] = []
    with opened(models.quantized(IMAGE, metadata=SMALL), threads_per_core=3) as session:

        def work(number: int) -> None:
            for _ in range(40):
                (result,) = session.run(None, [np.full(IMAGE, number, np.uint8)])
                if not (result == number).all():
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


WITHOUT_A_COMPILER = """
import warnings, numpy as np
warnings.simplefilter("ignore")
from anynpu import native
from anynpu.native import library
library.load = lambda *arguments: None
from anynpu.native import kernels
from anynpu.native.pump import c_threads
kernels.load = c_threads.load = library.load
from anynpu import InferenceSession
from tests import models
cases = [({"anynpu.soc": "rv1106"}, {}), (None, {}), (None, {"output_layout": "native"})]
for metadata, options in cases:
    model = models.quantized((1, 3, 6, 7), metadata=metadata)
    with InferenceSession(model, provider_options=options) as session:
        assert type(session._scheduler._pump).__name__ == "PythonPump"
        futures = [session.submit(None, [np.full((1, 3, 6, 7), n, np.uint8)]) for n in range(20)]
        for n, future in enumerate(futures):
            assert future.result(30)[0].flat[0] == n
print("done")
"""


def test_without_the_c_helpers() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_COMPILER], capture_output=True, text=True, check=False
    )
    assert result.stdout == "done\n", result.stderr


def test_device_memory_on_rv1106() -> None:
    pixels = RNG.integers(0, 60, IMAGE).astype(np.uint8)
    with opened(models.quantized(IMAGE, metadata=SMALL)) as session:
        binding = session.io_binding()
        given = anynpu.OrtValue.ortvalue_from_shape_and_type(
            None, np.uint8, "rknpu2", name="x", session=session, io_kind="input"
        )
        given.numpy()[...] = pixels.transpose(0, 2, 3, 1)
        binding.bind_ortvalue_input("x", given)
        result = anynpu.OrtValue.ortvalue_from_shape_and_type(
            None, None, "rknpu2", name="y", session=session, io_kind="output"
        )
        binding.bind_ortvalue_output("y", result)
        session.run_with_iobinding(binding)
        expected = (relu(pixels) * 2 - 3).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(result.numpy(), expected)
