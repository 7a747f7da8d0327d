"""Frigate's detectors over ZeroMQ, as its plugin asks: a REQ socket, a header and a frame."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zmq

from anynpu import TensorError
from anynpu.errors import OptionError
from anynpu.serving.frigate import rows_of
from anynpu.soft.build import BuildOptions, build_file
from anynpu.vision import Detections

from ..shared import SHARED
from ..vision import encoders
from ..vision.models import constant
from .conftest import Running, Serve

pytest.importorskip("cv2")

WIDTH, HEIGHT = encoders.SIZE
FRAME = np.zeros((1, HEIGHT, WIDTH, 3), np.uint8)
THINGS = [
    encoders.Thing((64.0, 128.0), (60.0, 120.0), 2, 0.9),
    encoders.Thing((220.0, 150.0), (100.0, 80.0), 0, 0.6),
]
SIZES = (HEIGHT, WIDTH, HEIGHT, WIDTH)


@pytest.fixture(scope="module")
def detecting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector that always finds the same two things."""
    outputs = encoders.ENCODERS["yolov8 single"][1](THINGS)
    path = tmp_path_factory.mktemp("frigate") / "detector.rknn"
    build_file(constant(outputs, encoders.SIZE), str(path), BuildOptions(std={"x": [255.0] * 3}))
    return path


@pytest.fixture
def running(serve: Serve, detecting: Path) -> Running:
    return serve(detecting, zmq="tcp://127.0.0.1:0", zmq_head="yolov8", max_body=1_000_000)


@pytest.fixture
def socket(running: Running) -> Iterator[Any]:
    with zmq.Context() as context, connected(context, running) as socket:
        yield socket


def connected(context: Any, running: Running) -> Any:
    socket = context.socket(zmq.REQ)
    socket.setsockopt(zmq.RCVTIMEO, 30_000)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(running.server.addresses["zmq"])
    return socket


def detect(socket: Any, frame: Any = FRAME, **header: Any) -> Any:
    """The rows; the frames of another answer."""
    about = {"shape": list(frame.shape), "dtype": frame.dtype.name, "model_type": "yologeneric"}
    socket.send_multipart([json.dumps({**about, **header}).encode(), frame.tobytes()])
    answer = socket.recv_multipart()
    if len(answer) < 2:
        return answer
    described = json.loads(answer[0])
    return np.frombuffer(answer[1], described["dtype"]).reshape(described["shape"])


def test_a_detector_gets_rows(socket: Any) -> None:
    rows = detect(socket)
    assert rows.shape == (20, 6)
    assert rows.dtype == np.float32
    assert rows[:2, 0].tolist() == [2, 0]
    assert np.allclose(rows[:2, 1], [0.9, 0.6], atol=0.01)
    for row, thing in zip(rows, THINGS, strict=False):
        x1, y1, x2, y2 = thing.box
        assert np.allclose(row[2:] * SIZES, [y1, x1, y2, x2], atol=1.5)
    assert not rows[2:].any()
    planes = np.ascontiguousarray(FRAME.transpose(0, 3, 1, 2))
    assert np.array_equal(detect(socket, planes), rows)


def test_a_frame_of_another_size_is_fitted(socket: Any) -> None:
    rows = detect(socket, np.zeros((1, 160, 640, 3), np.uint8))
    x1, y1, x2, y2 = THINGS[0].box
    assert np.allclose(rows[0, 2:] * SIZES, [y1, x1, y2, x2], atol=1.5)


def test_many_detectors(running: Running) -> None:
    def ask(number: int) -> Any:
        with connected(context, running) as socket:
            return [detect(socket) for _ in range(10)]

    with zmq.Context() as context, ThreadPoolExecutor(4) as pool:
        found = [rows for all_rows in pool.map(ask, range(4)) for rows in all_rows]
    assert len(found) == 40
    assert all(np.array_equal(rows, found[0]) for rows in found)
    text = running.ask("/metrics").body.decode()
    assert 'anynpu_requests_total{code="OK",model="detector",protocol="zmq"} 40.0' in text


def test_a_detector_that_asks_for_its_model(socket: Any) -> None:
    socket.send_multipart([json.dumps({"model_request": True, "model_name": "a.onnx"}).encode()])
    (answer,) = socket.recv_multipart()
    assert json.loads(answer) == {"model_available": True, "model_loaded": True}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ([b""], "header"),
        ([b"[]", b""], "header"),
        ([b"[" * 4000, b""], "header"),
        ([b"{}", b""], "shape None"),
        ([b'{"shape": [1, 4, 4, 3], "dtype": "float32"}', bytes(192)], "uint8"),
        ([b'{"shape": [1, 4, 4, 3], "dtype": "uint8"}', bytes(47)], "takes 48 bytes; found 47"),
        ([b'{"shape": [1, 4, 4, 3], "dtype": "uint8"}'], "uint8"),
        ([b'{"shape": [2, 4, 4, 3], "dtype": "uint8"}', bytes(96)], "one picture"),
        ([b'{"shape": [1, 0, 4, 3], "dtype": "uint8"}', b""], "one picture"),
        ([b'{"shape": [1, 4, 4, 4], "dtype": "uint8"}', bytes(64)], "one picture"),
        ([b'{"shape": [1, -4, -4, 3], "dtype": "uint8"}', bytes(48)], "none below 0"),
    ],
)
def test_mistakes_are_one_frame(socket: Any, message: list[bytes], said: str) -> None:
    """Which the plugin tells apart from results by its size, and reports."""
    socket.send_multipart(message)
    (answer,) = socket.recv_multipart()
    assert len(answer) != 20 * 6 * 4
    assert said in json.loads(answer)["error"]
    assert detect(socket).shape == (20, 6)


def test_a_model_that_is_sent_is_not_taken(socket: Any) -> None:
    header = {"model_data": True, "model_name": "../../a.onnx"}
    socket.send_multipart([json.dumps(header).encode(), b"onnx"])
    (answer,) = socket.recv_multipart()
    assert json.loads(answer) == {"model_saved": False, "model_loaded": False}


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Frigate's own plugin, as it is; what it imports of Frigate and pydantic is stood in for.

    Its file, frigate/detectors/plugins/zmq_ipc.py, lies among the shared ones.
    """
    path = SHARED / "frigate" / "zmq_ipc.py"
    if not path.is_file():
        pytest.skip(f"{path} is not there")

    class DetectionApi:
        def __init__(self, config: Any) -> None:
            self.detector_config = config

    names: dict[str, dict[str, Any]] = {
        "frigate": {}, "frigate.detectors": {},
        "frigate.detectors.detection_api": {"DetectionApi": DetectionApi},
        "frigate.detectors.detector_config": {"BaseDetectorConfig": object},
        "pydantic": {"Field": lambda **_: None, "ConfigDict": dict},
    }  # fmt: skip
    for name, values in names.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    spec = spec_from_file_location("zmq_ipc", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_frigate_s_own_plugin(running: Running, plugin: Any) -> None:
    config = SimpleNamespace(
        endpoint=running.server.addresses["zmq"],
        request_timeout_ms=30_000,
        linger_ms=0,
        model=SimpleNamespace(path="/none.onnx", model_type=SimpleNamespace(name="yologeneric")),
    )
    detector = plugin.ZmqIpcDetector(config)
    rows = detector.detect_raw(FRAME)
    assert rows.shape == (20, 6)
    assert rows[:2, 0].tolist() == [2, 0]
    assert not detector.detect_raw(FRAME.astype(np.float32)).any()
    assert np.array_equal(detector.detect_raw(FRAME), rows)
    detector._socket.close()
    detector._context.term()


def test_rows_are_twenty_at_most() -> None:
    count = 30
    boxes = np.tile(np.array([[0, 0, 10, 20]], np.float32), (count, 1))
    scores = np.linspace(1, 0.5, count, dtype=np.float32)
    found = Detections(boxes, scores, np.zeros(count, np.intp), ("a",) * count, (100, 50))
    rows = rows_of(found)
    assert rows.shape == (20, 6)
    assert np.allclose(rows[:, 2:], [0, 0, 0.4, 0.1])
    assert np.array_equal(rows[:, 1], scores[:20])


def test_a_model_that_detects_nothing_is_refused(serve: Serve, add: Path) -> None:
    with pytest.raises((TensorError, OptionError)):
        serve(add, zmq="tcp://127.0.0.1:0")
