"""`anynpu.InferenceSession`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import anynpu
from anynpu import InferenceSession

from .. import models
from ..soft.formats.compiled_file import standard_file

SHAPE = (1, 3, 4, 5)
VALUES = np.random.default_rng(5).integers(0, 100, SHAPE).astype(np.float32)


def test_what_onnx_runtime_says_of_inputs_and_outputs() -> None:
    model = models.convolution()
    ours, theirs = InferenceSession(model), onnxruntime.InferenceSession(model)
    for mine, other in (
        (ours.get_inputs(), theirs.get_inputs()),
        (ours.get_outputs(), theirs.get_outputs()),
    ):
        assert [(a.name, a.shape, a.type) for a in mine] == [
            (b.name, b.shape, b.type) for b in other
        ]


def test_what_the_device_holds() -> None:
    session = InferenceSession(models.quantized())
    (given,), (result,) = session.get_inputs(), session.get_outputs()
    for arg in (given, result):
        assert (arg.dtype, arg.model_dtype) == (anynpu.DType.FLOAT32, anynpu.DType.INT8)
        assert (arg.scale, arg.zero_point, arg.layout) == (0.5, -3, anynpu.Layout.NCHW)


@pytest.mark.parametrize(
    "feed",
    [
        {"x": VALUES},
        [VALUES],
        (VALUES,),
        VALUES,
        VALUES.tolist(),
        {"x": VALUES.tolist()},
        VALUES.astype(np.float64),
        VALUES.astype(np.uint8),
        np.ascontiguousarray(VALUES.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    ],
    ids=["dict", "list", "tuple", "array", "lists", "dict of lists", "double", "uint8", "nhwc"],
)
def test_forms_of_a_feed(feed: object) -> None:
    with InferenceSession(models.add_one()) as session:
        (result,) = session.run(None, feed)  # type: ignore[arg-type]
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, VALUES + 1)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"],
)
def test_dtypes(dtype: str) -> None:
    values = VALUES.astype(dtype)
    with InferenceSession(models.add_one()) as session:
        (result,) = session.run(None, {"x": values})
    np.testing.assert_array_equal(result, values.astype(np.float32) + 1)


def test_the_choice_of_outputs() -> None:
    a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
    with InferenceSession(models.two_inputs()) as session:
        for feed in ({"b": b, "a": a}, [a, b]):
            assert [r[0, 0] for r in session.run(None, feed)] == [7, 3]
        assert [r[0, 0] for r in session.run([], feed)] == [7, 3]
        assert [r[0, 0] for r in session.run(["difference"], feed)] == [3]
        assert [r[0, 0] for r in session.run(["difference", "sum"], feed)] == [3, 7]
        with pytest.raises(anynpu.TensorError, match=r"no outputs \['total'\].*'sum'"):
            session.run(["sum", "total"], feed)
        with pytest.raises(anynpu.TensorError, match="not the string"):
            session.run("sum", feed)


def test_results_are_the_caller_s() -> None:
    with InferenceSession(models.add_one()) as session:
        (first,) = session.run(None, VALUES)
        (second,) = session.run(None, VALUES * 0)
        assert first is not second
        np.testing.assert_array_equal(first, VALUES + 1)
    np.testing.assert_array_equal(first, VALUES + 1)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({}, r"missing \['x'\]"),
        ({"x": VALUES, "z": VALUES}, r"unknown \['z'\]"),
        ({"y": VALUES}, r"missing \['x'\], unknown \['y'\]"),
        (VALUES[0], r"lacks the batch axis: pass array\[None\]"),
        (VALUES.transpose(0, 2, 3, 1), "same image as NHWC: transpose it"),
        (VALUES[:, :2], r"takes the shape \(1, 3, 4, 5\); found \(1, 2, 4, 5\)"),
        ({"x": VALUES.astype(complex)}, "complex128"),
        ({"x": None}, "object"),
        ([VALUES, VALUES], "shape"),
    ],
    ids=str,
)
def test_what_does_not_fit(feed: object, message: str) -> None:
    with InferenceSession(models.add_one()) as session:
        with pytest.raises(anynpu.TensorError, match=message):
            session.run(None, feed)  # type: ignore[arg-type]
        assert isinstance(anynpu.TensorError(""), ValueError)


def test_two_inputs_need_a_dict_or_a_list() -> None:
    a = np.zeros((2, 3), np.float32)
    with InferenceSession(models.two_inputs()) as session:
        with pytest.raises(anynpu.TensorError, match="pass a dict or a list"):
            session.run(None, a)
        with pytest.raises(anynpu.TensorError, match=r"2 inputs .* 1 were given"):
            session.run(None, [a])


def test_normalised_pictures_may_be_nchw(capfd: pytest.CaptureFixture[str]) -> None:
    """The C call leaves that order out; a session transposes."""
    metadata = {"anynpu.mean": '{"x": [10, 20, 30]}', "anynpu.std": '{"x": [2, 4, 5]}'}
    mean = np.array([10, 20, 30], np.float32)[:, None, None]
    std = np.array([2, 4, 5], np.float32)[:, None, None]
    with InferenceSession(models.add_one(metadata=metadata)) as session:
        for values in (VALUES.astype(np.uint8), VALUES, VALUES.astype(np.uint8)):
            (result,) = session.run(None, values)
            expected = ((values - mean) / std).astype(np.float16).astype(np.float32) + 1
            np.testing.assert_array_equal(result, expected.astype(np.float16))
    assert capfd.readouterr().err == ""


def test_other_types_of_inputs() -> None:
    with InferenceSession(models.passes(TensorProto.INT64)) as session:
        assert session.get_inputs()[0].type == "tensor(int64)"
        (result,) = session.run(None, [[1, 2, 3], [4, 5, 6]])
        assert result.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
        with pytest.raises(anynpu.TensorError, match="complex"):
            session.run(None, np.zeros((2, 3), complex))


def test_metadata_and_providers(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(models.add_one(metadata={"anynpu.custom_string": "RGB"}))
    with InferenceSession(file) as session:
        found = session.get_modelmeta().custom_metadata_map
        assert found["rknn_custom_string"] == "RGB"
        assert found["rknn_api_version"].startswith("2.3.2")
        assert found["library"] == "the soft NPU"
        assert session.get_providers() == ["RKNPU2ExecutionProvider"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"providers": ["RKNNExecutionProvider"]},
        {"providers": "RKNPU2ExecutionProvider"},
        {"providers": [("RKNNExecutionProvider", {"library": "soft"})]},
        {"providers": [], "provider_options": [{"library": "soft"}]},
        {"provider_options": {"library": "soft"}},
        {"sess_options": "any object", "provider_options": []},
        {"providers": anynpu.get_available_providers()},
        {
            "providers": [
                "VIPLiteExecutionProvider",
                ("RKNPU2ExecutionProvider", {"library": "soft"}),
            ]
        },
    ],
    ids=str,
)
def test_ways_to_ask_for_a_provider(arguments: dict[str, object]) -> None:
    with InferenceSession(models.add_one(), **arguments) as session:  # type: ignore[arg-type]
        np.testing.assert_array_equal(session.run(None, VALUES)[0], VALUES + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"providers": ["CUDAExecutionProvider"]}, "known are RKNPU2ExecutionProvider"),
        ({"providers": ["RKNNExecutionProvider"] * 2}, "2 were given"),
        ({"providers": ["RKNNExecutionProvider", "RKNPUExecutionProvider"]}, "2 were given"),
        ({"provider_options": {"libary": "x"}}, "perhaps 'library'; known are max_queue_size"),
        ({"provider_options": [{}, {}]}, "2 entries"),
        (
            {
                "providers": [("RKNNExecutionProvider", {"library": "soft"})],
                "provider_options": {"library": "soft"},
            },
            "both",
        ),
    ],
    ids=str,
)
def test_options_that_are_wrong(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(anynpu.OptionError, match=message):
        InferenceSession(models.add_one(), **arguments)  # type: ignore[arg-type]


def test_files_for_other_chips_are_named() -> None:
    with pytest.raises(anynpu.ModelError, match="RKNPU3"):
        InferenceSession(b"RKNX" + bytes(100))


def test_a_compiled_file_is_refused_with_the_reason(
    capfd: pytest.CaptureFixture[str],
) -> None:
    data = standard_file(target="rk3576", generation="RKNPU f2")
    for model, reason in (
        (data, "task 0: register DPU_FEATURE_MODE_CFG (0x400c) = 0x0 is not known"),
        (data[:68] + bytes(4) + data[72:], "at offset 68"),
    ):
        with pytest.raises(anynpu.ModelError):
            InferenceSession(model)
        assert reason in capfd.readouterr().err


def test_closing() -> None:
    session = InferenceSession(models.add_one())
    session.run(None, VALUES)
    session.close()
    session.close()
    with pytest.raises(anynpu.ClosedError):
        session.run(None, VALUES)
    assert "library" in session.get_modelmeta().custom_metadata_map
    assert session.get_inputs()[0].name == "x"


def test_threads_share_a_session() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        values = np.full(SHAPE, number, np.float32)
        for _ in range(50):
            (result,) = session.run(None, values)
            if not (result == number + 1).all():
                wrong.append(number)

    with InferenceSession(models.add_one()) as session:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_closing_while_another_thread_runs() -> None:
    session = InferenceSession(models.convolution(size=64, filters=32))
    values = np.zeros((1, 3, 64, 64), np.float32)
    started = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                session.run(None, values)
                started.set()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait(10)
    session.close()
    thread.join(10)
    assert [type(error) for error in errors] == [anynpu.ClosedError]


def test_a_trained_network(shared_model: Callable[[str], Path]) -> None:
    path = shared_model("efficientnet_lite0_224.onnx")
    values = np.random.default_rng(0).uniform(-1, 1, (1, 3, 224, 224)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"images": values})
    with InferenceSession(path) as session:
        (result,) = session.run(["logits"], {"images": values})
    similarity = (result * expected).sum() / np.linalg.norm(result) / np.linalg.norm(expected)
    assert similarity > 0.9999
    assert result.argmax() == expected.argmax()
