"""A compiled file on the soft NPU against ONNX Runtime on the network it was made from.

There the network runs in float32, and in int8: quantised by ONNX Runtime itself (QDQ, a scale a
channel), which computes on processors without VNNI what may saturate. Files of float16 are compared
with float32 alone.

The files lie beside the repository, in ``../shared`` (see `tests/conformance/rknn_files.py` and
`nbg_files.py`); what isn't there is left out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from anynpu.soft.engines import Instance, ModelSource, load
from anynpu.soft.engines.nbg import vip
from anynpu.soft.formats import nbg
from tests.shared import SAMPLES, SHARED

from .measure import SPINNING, Comparison, compare

_THREADS = 2
_REPEAT = 3
_NETWORKS = (
    ("efficientnet_lite0_224", "efficientnet_lite0_224_i8", 127.0, 128.0, 1.0),
    ("yolov3_tiny_416", "yolov3_tiny_416_i8", 0.0, 255.0, 1.0),
    ("mobilenetv2_224", "mobilenetv2_224_i8", 127.0, 128.0, 1.0),
    ("resnet50_224", "resnet50_224_i8", 127.0, 128.0, 1.0),
)
"""The source, the compiled file, mean and standard deviation of its pictures, the goal."""
_FLOAT_NETWORKS = (
    ("efficientnet_lite0_224", "efficientnet_lite0_224_fp16", 127.0, 128.0),
    ("yolox_nano_416", "yolox_nano_416_fp16", 0.0, 1.0),
)
"""The same of what was compiled without quantising it: ``do_quantization=False``."""
_FLOAT_GOAL = 1.2
_ALLWINNER = SHARED / "samples" / "nbg-emulator" / "networks"
_ALLWINNER_NETWORKS = (
    ("efficientnet_lite0_224", "efficientnet_lite0_224_pcq.{chip}.nb"),
    ("yolov3_tiny_416", "yolov3_tiny_416.{chip}.nb"),
    ("mobilenetv2_224", "mobilenetv2.{chip}_v2.nb"),
)
"""The source and the compiled file of each."""
_ALLWINNER_GOAL = 1.0


def run(rounds: int) -> Iterator[Comparison]:
    """Ratios of one run, in int8 here and in float32 and int8 there, and of loading the file."""
    for source, compiled, mean, std, goal in _NETWORKS:
        model = SHARED / "models" / f"{source}.onnx"
        for chip in ("rk3588", "rk3566"):
            file = SAMPLES / chip / f"{compiled}.rknn"
            if model.is_file() and file.is_file():
                yield from _rockchip(model, file, mean, std, goal, rounds)
    for source, compiled, mean, std in _FLOAT_NETWORKS:
        model = SHARED / "models" / f"{source}.onnx"
        file = SAMPLES / "rk3588" / f"{compiled}.rknn"
        if model.is_file() and file.is_file():
            yield from _float16(model, file, mean, std, rounds)
    for source, compiled in _ALLWINNER_NETWORKS:
        model = SHARED / "models" / f"{source}.onnx"
        for chip in ("t527", "a733"):
            file = _ALLWINNER / compiled.format(chip=chip)
            if model.is_file() and file.is_file():
                yield from _allwinner(model, file, rounds)


def _rockchip(
    model: Path, file: Path, mean: float, std: float, goal: float, rounds: int
) -> Iterator[Comparison]:
    with np.load(file.with_suffix(".npz")) as archive:
        picture: NDArray[np.uint8] = archive["in0"]
    real = (picture.transpose(0, 3, 1, 2) - np.float32(mean)) / np.float32(std)
    source = ModelSource.of(file)
    name = f"{file.parent.name}/{file.stem}"
    yield from _measure(name, lambda: load(source).instance(0), model, real, goal, rounds)


def _float16(model: Path, file: Path, mean: float, std: float, rounds: int) -> Iterator[Comparison]:
    """A file of float16, with noise that has been smoothed for a picture, against float32."""
    source = ModelSource.of(file)
    shape = load(source).instance(0).inputs[0].shape
    noise = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32)
    around = [np.roll(noise, step, axis) for step in (0, 3) for axis in (2, 3)]
    picture = np.round(np.mean(around, axis=0))

    def opened() -> Instance:
        instance = load(source).instance(0)
        instance.inputs[0][...] = picture
        return instance

    real = (picture - np.float32(mean)) / np.float32(std)
    name = f"{file.parent.name}/{file.stem}"
    yield from _measure(name, opened, model, real, _FLOAT_GOAL, rounds, quantises=False)


def _allwinner(model: Path, file: Path, rounds: int) -> Iterator[Comparison]:
    """A `.nb` file, with the bytes that the emulator's values were made of."""
    with np.load(file.with_name(f"{file.stem}.hw.npz")) as archive:
        stored = archive["in0"]
    compiled = nbg.read(file.read_bytes())
    quantization = vip.contract(compiled).inputs[0].quantization
    assert quantization is not None, "these have inputs of bytes"
    real = (stored.astype(np.float32) - quantization.zero_point) * quantization.scale

    def opened() -> Instance:
        instance = vip.load(nbg.read(file.read_bytes())).instance(0)
        instance.inputs[0][...] = stored.reshape(instance.inputs[0].shape)
        return instance

    yield from _measure(file.stem, opened, model, real, _ALLWINNER_GOAL, rounds)


def _measure(
    name: str,
    opened: Callable[[], Instance],
    model: Path,
    real: NDArray[Any],
    goal: float,
    rounds: int,
    *,
    quantises: bool = True,
) -> Iterator[Comparison]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _THREADS
    plain = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {plain.get_inputs()[0].name: np.ascontiguousarray(real, np.float32)}
    instance = opened()
    sessions: list[tuple[str, Any, float | None]] = [("float32", plain, goal)]
    if quantises:
        sessions.append(("int8 QDQ", _in_int8(model, feed, options), None))
    for kind, session, wanted in sessions:
        yield compare(
            f"{name} / onnxruntime {kind}, a run",
            instance.run,
            partial(session.run, None, feed),
            rounds=rounds,
            goal=wanted,
            repeat=_REPEAT,
            pause=SPINNING,
        )
    start = time.perf_counter()
    opened()
    ours = time.perf_counter() - start
    start = time.perf_counter()
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    theirs = time.perf_counter() - start
    yield Comparison(
        f"{name} / onnxruntime float32, loading", 1000 * ours, 1000 * theirs, ours / theirs, None
    )


def _in_int8(model: Path, feed: Mapping[str, Any], options: Any) -> Any:
    """A session of the network as ONNX Runtime quantises it, calibrated with one picture."""
    from onnxruntime import quantization

    class OnePicture(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds = iter([dict(feed)])

        def get_next(self) -> dict[str, Any] | None:
            return next(self._feeds, None)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / model.name
        quantization.quantize_static(model, path, OnePicture(), per_channel=True)
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
