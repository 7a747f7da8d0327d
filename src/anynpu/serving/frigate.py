"""Frigate's detectors over ZeroMQ: its plugin ``zmq``, unmodified, detects on this NPU.

A detector sends a header, ``{"shape": [1, H, W, 3], "dtype": "uint8"}`` in JSON, and a frame's
pixels, one request at a time; it gets a header and float32 rows of class, score, and the box's y1,
x1, y2, x2 as parts of the frame: 20 rows, the surest first, the rest zeros. Any number of
detectors may connect. A refusal is one frame, which the plugin reports and takes for no things.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import numpy as np
import zmq
import zmq.asyncio
from numpy.typing import NDArray

from ..errors import TensorError
from ..vision import Detections, Detector
from . import tensors
from .answers import Answer, Refusal
from .inference import Inference, Story
from .settings import ServeSettings

_ROWS, _COLUMNS = 20, 6
_MOST_HEADER = 4096
_LINGER_MS = 1000
_PICTURE_AXES = 4


class DetectorServer:
    """Answers detectors at an endpoint with one of the server's models."""

    def __init__(self, inference: Inference, model: str, settings: ServeSettings) -> None:
        self._inference, self._model = inference, model
        self._endpoint, self._threshold = settings.zmq, settings.zmq_threshold
        self._head = settings.zmq_head or None
        self._most_body, self._seconds = settings.max_body, settings.drain_timeout
        self._context = zmq.asyncio.Context()
        self._socket: Any = None
        self._serving: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._detector: tuple[Any, Detector] | None = None

    async def start(self) -> str:
        """Listen; returns the endpoint. Raises `TensorError` for a model that detects nothing."""
        with self._inference.models.lease(self._model) as opened:
            self._detector_of(opened.session)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, self._most_body)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        try:
            self._socket.bind(self._endpoint)
        except zmq.ZMQError as error:
            raise OSError(f"{self._endpoint} can't be listened on: {error}") from None
        self._serving = asyncio.create_task(self._serve())
        endpoint: bytes = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        return endpoint.decode()

    async def stop(self) -> None:
        """Take no more, and answer what has come."""
        if self._serving is not None:
            self._serving.cancel()
        if self._answering:
            await asyncio.wait(set(self._answering), timeout=self._seconds)
        if self._socket is not None:
            self._socket.close()
        self._context.term()

    def _detector_of(self, session: Any) -> Detector:
        """The detector for the session that is current."""
        if self._detector is None or self._detector[0] is not session:
            detector = Detector(session, threshold=self._threshold, most=_ROWS, is_stretched=True)
            self._detector = (session, detector)
        return self._detector[1]

    async def _serve(self) -> None:
        while True:
            frames = await self._socket.recv_multipart(copy=False)
            task = asyncio.create_task(self._answer(frames))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, frames: list[Any]) -> None:
        # Who asks, up to the empty frame that a REQ socket puts before its message.
        end = next((place for place, frame in enumerate(frames) if not len(frame)), 0)
        sender, message = frames[: end + 1], frames[end + 1 :]
        story = Story("zmq", "", self._model)
        try:
            with self._inference.telling(story):
                reply = await self._reply(message)
        except Exception:
            reply = [_refused(story.error)]
        with contextlib.suppress(zmq.ZMQError):
            await self._socket.send_multipart([*sender, *reply], copy=False)

    async def _reply(self, message: list[Any]) -> list[Any]:
        header = _header(message)
        # The model is the server's. The plugin asks for it, and sends its own where it isn't there.
        if header.get("model_request"):
            is_ready = self._inference.models.served[self._model].current is not None
            return [_json(model_available=True, model_loaded=is_ready)]
        if header.get("model_data"):
            return [_json(model_saved=False, model_loaded=False)]
        picture = _picture(header, message)
        if self._inference.is_draining:
            raise Refusal(Answer.UNAVAILABLE, "the server ends")
        with self._inference.occupying(self._model) as opened:
            detector = self._detector_of(opened.session)
            found = await asyncio.to_thread(detector, picture)
        rows = rows_of(found)
        return [_json(shape=list(rows.shape), dtype="float32"), rows]


def rows_of(found: Detections) -> NDArray[np.float32]:
    """What was found as Frigate's rows: class, score, and y1, x1, y2, x2 from 0 to 1."""
    rows = np.zeros((_ROWS, _COLUMNS), np.float32)
    count = min(len(found), _ROWS)
    width, height = found.picture
    rows[:count, 0], rows[:count, 1] = found.classes[:count], found.scores[:count]
    rows[:count, 2:] = found.boxes[:count][:, [1, 0, 3, 2]] / (height, width, height, width)
    return rows


def _json(**values: Any) -> bytes:
    return json.dumps(values).encode()


def _refused(error: str) -> bytes:
    """One frame that isn't as long as rows are, for which the plugin would take it."""
    found = _json(error=error)
    return found + b" " if len(found) == _ROWS * _COLUMNS * np.float32().itemsize else found


def _header(message: list[Any]) -> dict[str, Any]:
    try:
        found = json.loads(bytes(message[0].buffer[:_MOST_HEADER])) if message else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TensorError("a detector's message has a header, a JSON object")
    return found


def _picture(header: dict[str, Any], message: list[Any]) -> NDArray[np.uint8]:
    """The frame as (height, width, 3)."""
    shape = tensors.shape_of(header.get("shape"), "frame")
    if header.get("dtype") != "uint8" or len(shape) != _PICTURE_AXES or len(message) < 2:
        raise TensorError(
            f"a detector's frame is uint8 of the shape (1, height, width, 3); found "
            f"{str(header.get('dtype'))[:20]} {list(shape)}: set input_dtype: int in Frigate"
        )
    frame = tensors.from_bytes("frame", "UINT8", shape, message[1].buffer)
    if shape[1] == 3 and shape[3] != 3:  # input_tensor: nchw
        frame = frame.transpose(0, 2, 3, 1)
    if frame.shape[0] != 1 or frame.shape[3] != 3 or not frame.size:
        raise TensorError(f"a detector's frame is one picture of three channels; found {shape}")
    picture: NDArray[np.uint8] = frame[0]
    return picture
