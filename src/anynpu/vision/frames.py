"""Where pictures come from: a file, a folder, a video, a camera, a network's stream."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
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
    and `total` how many there are, where that is known. `files` are those of this machine that are
    read.
    """

    def __init__(
        self,
        kind: str,
        frames: Iterator[Frame],
        rate: float | None,
        total: int | None,
        files: Sequence[Path] = (),
    ) -> None:
        self.kind, self.rate, self.total, self.files = kind, rate, total, files
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


def open_frames(
    source: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    unreadable: Callable[[OSError], None] | None = None,
) -> Frames:
    """The frames of a picture, a folder of pictures, a video, a camera or a stream.

    A camera is its number or ``/dev/videoN``, a stream a URL such as ``rtsp://...``. Several
    sources are pictures, which come as those of a folder do. Raises OSError where there is nothing
    of that kind; for a file among several that is no picture `unreadable` gets the error, where it
    is given, and the next one follows.
    """
    if more:
        files = [Path(each) for each in (source, *more)]
        for file in files:
            if file.suffix.lower() not in PICTURES:
                raise OSError(
                    f"{file}: several sources are pictures ({', '.join(PICTURES)}): give a folder, "
                    f"a video, a camera or a stream alone"
                )
        return _pictures(files, unreadable)
    text = os.fspath(source)
    if camera := _CAMERA.fullmatch(text):
        return _camera(int(camera[1]))
    if _STREAM.match(text):
        return _video(text, "camera")
    path = Path(text)
    if path.is_dir():
        return _pictures(_in_folder(path), unreadable)
    if not path.exists():
        raise FileNotFoundError(f"{text}: there is no such picture, folder, video or camera")
    if path.suffix.lower() in PICTURES:
        return Frames("picture", iter([Frame(text, read_picture(path))]), None, 1, [path])
    return _video(text, "video")


class VideoWriter(Closeable):
    """Writes uint8 RGB frames of one size as a video; the name's ending chooses the container."""

    def __init__(self, path: str | os.PathLike[str], rate: float) -> None:
        codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
        try:
            self._container: Any = av.open(os.fspath(path), "w")
            self._stream: Any = self._container.add_stream(codec, rate=round(rate) or 1)
        except (av.FFmpegError, ValueError) as error:
            raise OSError(
                f"{os.fspath(path)}: can't be written as a video: {error}; name it .mp4 or .mkv"
            ) from None
        self._is_begun = False

    def write(self, pixels: Pixels) -> None:
        """Add a frame; sides that are odd lose a pixel, as codecs want even ones."""
        height, width = (side - side % 2 for side in pixels.shape[:2])
        if not self._is_begun:
            self._is_begun = True
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame.from_ndarray(pixels[:height, :width].copy(), format="rgb24")
        for packet in self._stream.encode(frame):
            self._container.mux(packet)

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._container is None:
            return
        if self._is_begun:
            for packet in self._stream.encode():
                self._container.mux(packet)
        self._container.close()
        self._container = None


def _in_folder(path: Path) -> list[Path]:
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        raise FileNotFoundError(f"{path}: there are no pictures in it ({', '.join(PICTURES)})")
    return files


def _pictures(files: Sequence[Path], unreadable: Callable[[OSError], None] | None) -> Frames:
    return Frames("folder", _read(files, unreadable), None, len(files), files)


def _read(files: Sequence[Path], unreadable: Callable[[OSError], None] | None) -> Iterator[Frame]:
    for file in files:
        try:
            pixels = read_picture(file)
        except OSError as error:
            if unreadable is None:
                raise
            unreadable(error)
        else:
            yield Frame(str(file), pixels)


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
    files = [Path(source)] if kind == "video" else []
    return Frames(kind, frames, rate, stream.frames or None, files).closing(container.close)


def _pixels(frame: Any) -> Pixels:
    pixels: Pixels = frame.to_ndarray(format="rgb24")
    return pixels


def _camera(number: int) -> Frames:
    device = f"/dev/video{number}"
    # Looked at here, since OpenCV has lines of its own for it.
    capture = cv2.VideoCapture(number) if os.access(device, os.R_OK | os.W_OK) else None
    if capture is None or not capture.isOpened():
        raise OSError(
            f"camera {number} can't be opened: is there a {device}, may you read it (group video), "
            f"and does no other program have it?"
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
