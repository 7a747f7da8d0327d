"""Where pictures come from: a file, a folder, a video, a camera, a network's stream."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import cv2

from ..lifetime import Closeable
from .pictures import Pixels, bgr_as_rgb, read_picture

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
_CAMERA = re.compile(r"(?:/dev/video)?(\d+)")
_STREAM = re.compile(r"\w+://")


@dataclass(frozen=True)
class Frame:
    """One picture, uint8 RGB (height, width, 3), and what to call it."""

    name: str
    pixels: Pixels


class Frames(Closeable):
    """Pictures one after another.

    `kind` is ``"picture"``, ``"folder"``, ``"video"`` or ``"camera"``; `rate` its frames a second
    and `total` how many there are, where that is known.
    """

    def __init__(
        self, kind: str, frames: Iterator[Frame], rate: float | None, total: int | None
    ) -> None:
        self.kind, self.rate, self.total = kind, rate, total
        self._frames = frames
        self._resources = ExitStack()

    def __iter__(self) -> Iterator[Frame]:
        return self._frames

    def close(self) -> None:
        """Let go of the camera or the file."""
        self._resources.close()

    def closing(self, resource: Any) -> Frames:
        """The same, which releases a resource when it is closed."""
        self._resources.callback(resource)
        return self


def open_frames(source: str | os.PathLike[str]) -> Frames:
    """The frames of a picture, a folder of pictures, a video, a camera or a stream.

    A camera is its number or ``/dev/videoN``, a stream a URL such as ``rtsp://...``. Raises OSError
    where there is nothing of that kind.
    """
    text = os.fspath(source)
    if camera := _CAMERA.fullmatch(text):
        return _camera(int(camera[1]))
    if _STREAM.match(text):
        return _video(text, "camera")
    path = Path(text)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{text}: there is no such picture, folder, video or camera")
    if path.suffix.lower() in PICTURES:
        return Frames("picture", iter([Frame(text, read_picture(path))]), None, 1)
    return _video(text, "video")


class VideoWriter(Closeable):
    """Writes uint8 RGB frames of one size as a video; the name's ending chooses the container."""

    def __init__(self, path: str | os.PathLike[str], rate: float) -> None:
        try:
            self._container: Any = av.open(os.fspath(path), "w")
        except (av.FFmpegError, ValueError) as error:
            raise OSError(f"{os.fspath(path)}: can't be written as a video: {error}") from None
        self._rate = rate
        self._stream: Any = None

    def write(self, pixels: Pixels) -> None:
        """Add a frame; sides that are odd lose a pixel, as codecs want even ones."""
        height, width = (side - side % 2 for side in pixels.shape[:2])
        if self._stream is None:
            codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
            self._stream = self._container.add_stream(codec, rate=round(self._rate) or 1)
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame.from_ndarray(pixels[:height, :width].copy(), format="rgb24")
        for packet in self._stream.encode(frame):
            self._container.mux(packet)

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._container is None:
            return
        if self._stream is not None:
            for packet in self._stream.encode():
                self._container.mux(packet)
        self._container.close()
        self._container = None


def _folder(path: Path) -> Frames:
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise FileNotFoundError(f"{path}: there are no pictures in it ({', '.join(PICTURES)})")
    frames = (Frame(str(file), read_picture(file)) for file in files)
    return Frames("folder", frames, None, len(files))


def _video(source: str, kind: str) -> Frames:
    try:
        container = av.open(source)
    except (av.FFmpegError, OSError) as error:
        raise OSError(f"{source} is no picture or video that can be read: {error}") from None
    if not container.streams.video:
        container.close()
        raise OSError(f"{source} has no pictures in it: it is no video")
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    rate = float(stream.average_rate) if stream.average_rate else None
    frames = (
        Frame(f"{source}#{number}", _pixels(frame))
        for number, frame in enumerate(container.decode(stream))
    )
    return Frames(kind, frames, rate, stream.frames or None).closing(container.close)


def _pixels(frame: Any) -> Pixels:
    pixels: Pixels = frame.to_ndarray(format="rgb24")
    return pixels


def _camera(number: int) -> Frames:
    capture = cv2.VideoCapture(number)
    if not capture.isOpened():
        capture.release()
        raise OSError(
            f"camera {number} can't be opened: is there a /dev/video{number}, and may you read it "
            f"(group video)?"
        )
    rate = capture.get(cv2.CAP_PROP_FPS) or None
    return Frames("camera", _captured(capture, number), rate, None).closing(capture.release)


def _captured(capture: cv2.VideoCapture, camera: int) -> Iterator[Frame]:
    number = 0
    while True:
        is_read, bgr = capture.read()
        if not is_read:
            return
        yield Frame(f"camera {camera}#{number}", bgr_as_rgb(bgr))
        number += 1
