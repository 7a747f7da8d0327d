"""Forty-one mistakes that people make: each message names the thing, says what was expected, what
was found and what to do.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx.helper
import pytest

import anynpu
from anynpu import InferenceSession, Model, OrtValue
from anynpu.rknn import Matmul
from anynpu.rknn.model_file import write_frame

from . import models
from .conformance.vendor_runtime.python_programs import whole_numbers
from .shared import SAMPLES
from .soft.viplite.client import relu

PICTURE = np.zeros((1, 3, 4, 5), np.float32)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@dataclass(frozen=True)
class Place:
    """Where a mistake is made: a folder of its own, and the environment."""

    folder: Path
    environment: pytest.MonkeyPatch

    def file(self, content: bytes, name: str = "model.rknn") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@dataclass(frozen=True)
class Mistake:
    """What is done, the exception, and the parts of its message.

    `thing` is what it is about, `expected` and `found` what should be and what was, `advice` what
    to do.
    """

    make: Callable[[Place], object]
    error: type[Exception]
    thing: str
    expected: str
    found: str
    advice: str


def session(**options: Any) -> InferenceSession:
    return InferenceSession(models.add_one(), provider_options=options or None)


def ran() -> Model:
    model = Model(models.add_one())
    model.run(PICTURE)
    return model


def archive() -> bytes:
    """A PyTorch file, as far as its first bytes go."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))
    return content.getvalue()


def dynamic_onnx() -> bytes:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    return models.save([node], [("x", 1, ("n", 3))], [("y", 1, ("n", 3))])


def without_weights(place: Place) -> object:
    file = SAMPLES / "rk3588" / "conv3x3_i8_rw.rknn"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    return InferenceSession(file)


def without_packages(place: Place) -> object:
    import sys

    for name in ("onnx", "onnxruntime"):
        for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
            place.environment.delitem(sys.modules, module)
        place.environment.setitem(sys.modules, name, None)
    for module in [m for m in sys.modules if m.startswith("anynpu.soft.engines.onnx.program")]:
        place.environment.delitem(sys.modules, module)
    return Model(b"\x08\x08" + bytes(100))


def wrong_chip(place: Place) -> object:
    place.environment.setenv("ANYNPU_SOC", "rk3566")
    return InferenceSession(whole_numbers.file("gather"))


def unknown_chip(place: Place) -> object:
    place.environment.setenv("ANYNPU_SOC", "rk3599")
    return session()


def no_board(place: Place) -> object:
    place.environment.setenv("ANYNPU_DEVICE", "board")
    place.environment.setenv("ANYNPU_RKNN_LIBRARY", "/nowhere/librknnrt.so")
    return session()


def a_folder(place: Place) -> object:
    folder = place.folder / "networks"
    folder.mkdir()
    return InferenceSession(folder)


def closed(place: Place) -> object:
    opened = session()
    opened.close()
    return opened.run(None, [PICTURE])


def value_of_another(place: Place) -> object:
    opened = InferenceSession(models.two_inputs())
    value = OrtValue.ortvalue_from_shape_and_type(
        None, None, "rknpu2", name="a", session=opened, io_kind="input"
    )
    opened.io_binding().bind_ortvalue_input("b", value)
    return opened


MISTAKES = {
    # ------------------------------------------------------------------------------- the model
    "a path that isn't there": Mistake(
        lambda p: InferenceSession(p.file(b"x", "model.rknn").with_name("modle.rknn")),
        FileNotFoundError, "modle.rknn", "there is model.rknn", "no such model", "check the path",
    ),
    "a folder": Mistake(
        a_folder,
        IsADirectoryError, "networks", "a model is a file", "this is a folder", "name one in it",
    ),
    "a number": Mistake(
        lambda p: InferenceSession(5),  # type: ignore[arg-type]
        TypeError, "a model", "a path (str or os.PathLike)", "found 5 of type int", "bytes",
    ),
    "an empty file": Mistake(
        lambda p: Model(p.file(b"")),
        anynpu.ModelError, "model.rknn", "has bytes", "0 were found", "fetch the file again",
    ),
    "a text": Mistake(
        lambda p: Model(p.file(b"a description of a model\n")),
        anynpu.ModelError, "model.rknn", "no model for an NPU", "a text", "the model's own file",
    ),
    "a Git LFS pointer": Mistake(
        lambda p: Model(p.file(POINTER)),
        anynpu.ModelError, "model.rknn", "no model", "Git LFS pointer", "git lfs pull",
    ),
    "a page": Mistake(
        lambda p: Model(p.file(b"\n<!DOCTYPE html><html><title>404</title>")),
        anynpu.ModelError, "model.rknn", "no model", "an HTML page", "open the link",
    ),
    "a TensorFlow Lite model": Mistake(
        lambda p: Model(p.file(b"\x1c\0\0\0TFL3" + bytes(64), "model.tflite")),
        anynpu.ModelError, "model.tflite", "no model", "TensorFlow Lite", "rknn-toolkit2",
    ),
    "a PyTorch model": Mistake(
        lambda p: Model(p.file(archive(), "model.pt")),
        anynpu.ModelError, "model.pt", "no model", "a PyTorch model", "export it as ONNX",
    ),
    "a file cut off": Mistake(
        lambda p: Model(p.file(whole_numbers.file("gather")[:2000])),
        anynpu.ModelError, "model.rknn", "announces", "2000 are there", "copy or download it again",
    ),
    "a damaged file": Mistake(
        lambda p: Model(write_frame(b"\0" * 64, {"target_platform": ["rk3588"]})),
        anynpu.ModelError, "bytes; library: the soft NPU", "not b'RKNN'", "at offset 68",
        "the model is damaged",
    ),
    "an encrypted file": Mistake(
        lambda p: Model(p.file(b"CYPTRKNN" + bytes(64))),
        anynpu.ModelError, "model.rknn", "plain .rknn", "is encrypted", "export_rknn",
    ),
    "a file without its weights": Mistake(
        without_weights,
        anynpu.ModelError, "conv3x3_i8_rw.rknn", "none were given", "remove_weight=True",
        "use_weight_from=session",
    ),
    "an ONNX file of changing shapes": Mistake(
        lambda p: Model(dynamic_onnx()),
        anynpu.ModelError, "input 'x'", "fixed sizes", "[n, 3]", "anynpu build --shape",
    ),
    "a missing extra": Mistake(
        without_packages,
        anynpu.ModelError, "the model (102 bytes)", "needs onnxruntime, onnx",
        "missing are onnxruntime, onnx", "pip install 'anynpu[soft]'",
    ),
    "a model for another chip": Mistake(
        wrong_chip,
        anynpu.DeviceError, "rknn_init", "is for RK3588", "current platform is RK3566",
        "convert the model for this chip",
    ),
    "weights of what is no session": Mistake(
        lambda p: InferenceSession(models.add_one(), use_weight_from="a.rknn"),  # type: ignore[arg-type]
        TypeError, "use_weight_from", "an InferenceSession", "'a.rknn' of type str",
        "whose weights are shared",
    ),
    # ----------------------------------------------------------------------------- environment
    "an unknown chip": Mistake(
        unknown_chip,
        anynpu.OptionError, "$ANYNPU_SOC", "known are rk3562", "'rk3599'", "set it to one of these",
    ),
    "no library": Mistake(
        no_board,
        anynpu.LibraryNotFoundError, "$ANYNPU_RKNN_LIBRARY", "for this process's architecture",
        "/nowhere/librknnrt.so", "check the path",
    ),
    # --------------------------------------------------------------------------------- options
    "an unknown provider": Mistake(
        lambda p: InferenceSession(models.add_one(), providers=["CUDAExecutionProvider"]),
        anynpu.OptionError, "provider", "known are RKNPU2ExecutionProvider",
        "'CUDAExecutionProvider'", "pass one of these",
    ),
    "another vendor's provider": Mistake(
        lambda p: InferenceSession(relu(), providers=["RKNPU2ExecutionProvider"]),
        anynpu.OptionError, "the model", "for VIPLiteExecutionProvider",
        "not for RKNPU2ExecutionProvider", "no provider",
    ),
    "an option that is misspelt": Mistake(
        lambda p: session(layot="nhwc"),
        anynpu.OptionError, "provider option", "known are", "'layot'", "perhaps 'layout'",
    ),
    "a value that an option hasn't": Mistake(
        lambda p: session(layout="hwc"),
        anynpu.OptionError, "layout", "it may be original", "'hwc'", "nhwc",
    ),
    "two options that exclude each other": Mistake(
        lambda p: session(schedule=[0], tp_mode="all"),
        anynpu.OptionError, "schedule [0]", "one core, or on several", "tp_mode 'all'",
        "leave one of them out",
    ),
    "a core that isn't there": Mistake(
        lambda p: session(schedule=[7]),
        anynpu.OptionError, "schedule", "cores 0 to 2", "core 7", "leave it out",
    ),
    # ---------------------------------------------------------------------------------- inputs
    "an input's name": Mistake(
        lambda p: session().run(None, {"image": PICTURE}),
        anynpu.TensorError, "inputs", "['x']", "unknown ['image']", "pass {'x': array}",
    ),
    "too few inputs": Mistake(
        lambda p: InferenceSession(models.two_inputs()).run(None, [np.zeros((2, 3), np.float32)]),
        anynpu.TensorError, "['a', 'b']", "2 inputs", "1 were given", "pass an array for each",
    ),
    "an image of another size": Mistake(
        lambda p: session().run(None, [np.zeros((1, 3, 8, 8), np.float32)]),
        anynpu.TensorError, "input 'x'", "(1, 3, 4, 5)", "found (1, 3, 8, 8)",
        "resize the image to 5 x 4",
    ),
    "an image of another order": Mistake(
        lambda p: session().run(None, [np.zeros((1, 4, 5, 3), np.float32)]),
        anynpu.TensorError, "input 'x'", "(1, 3, 4, 5)", "found (1, 4, 5, 3)",
        "array.transpose(0, 3, 1, 2)",
    ),
    "an image without a batch": Mistake(
        lambda p: session().run(None, [PICTURE[0]]),
        anynpu.TensorError, "input 'x'", "(1, 3, 4, 5)", "found (3, 4, 5)", "pass array[None]",
    ),
    "a batch that is too large": Mistake(
        lambda p: session().run(None, [np.zeros((8, 3, 4, 5), np.float32)]),
        anynpu.TensorError, "input 'x'", "(1, 3, 4, 5)", "holds 8 samples", "batch='split'",
    ),
    "an element type": Mistake(
        lambda p: session().run(None, [PICTURE.astype(complex)]),
        anynpu.TensorError, "input 'x'", "takes float32", "found complex128",
        "array.astype(np.float32)",
    ),
    "fractions for whole numbers": Mistake(
        lambda p: InferenceSession(models.passes(7)).run(None, [np.full((2, 3), 0.5)]),
        anynpu.TensorError, "input 'x'", "takes int64", "found float64", "array.astype(np.int64)",
    ),
    "a shape that isn't listed": Mistake(
        lambda p: InferenceSession(models.dynamic()).run(None, [np.zeros((1, 3, 9, 9))]),
        anynpu.TensorError, "the model", "x (1, 3, 8, 8)", "found x (1, 3, 9, 9)",
        "give arrays of one set",
    ),
    # --------------------------------------------------------------------------------- outputs
    "an output's name": Mistake(
        lambda p: session().run(["scores"], [PICTURE]),
        anynpu.TensorError, "outputs", "the model has ['y']", "['scores']", "pass None for all",
    ),
    "an output's number": Mistake(
        lambda p: ran().output_f32(7),
        anynpu.TensorError, "output", "the model has 1", "no output 7", "numbered from 0",
    ),
    "an output before a run": Mistake(
        lambda p: Model(models.add_one()).output_f32(0),
        anynpu.StateError, "outputs", "a run that succeeded", "there are no", "call run first",
    ),
    "times that nobody took": Mistake(
        lambda p: ran().perf(),
        anynpu.ModelError, "perf", "profile=True", "was False", "open the model with",
    ),
    # ------------------------------------------------------------------------------------ rest
    "a session that is closed": Mistake(
        closed,
        anynpu.ClosedError, "this session", "use it before close()", "is closed", "open another",
    ),
    "memory of another tensor": Mistake(
        value_of_another,
        anynpu.TensorError, "input 'b'", "needs memory made for it", "made for input 0", "make one",
    ),
    "matrices that don't fit": Mistake(
        lambda p: Matmul((4,), 64, 32, type="INT8_MM_INT8_TO_INT32").set_b(
            np.zeros((32, 64), np.int8)
        ),
        anynpu.TensorError, "matrix B", "(64, 32)", "this array has (32, 64)", "give one of that",
    ),
}  # fmt: skip


def test_there_are_forty_one() -> None:
    assert len(MISTAKES) == 41


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = MISTAKES[name]
    with pytest.raises(mistake.error) as caught:
        mistake.make(Place(tmp_path, monkeypatch))
    message = str(caught.value)
    for part in (mistake.thing, mistake.expected, mistake.found, mistake.advice):
        assert part in message, message
