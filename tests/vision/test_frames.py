"""Frames from files, folders, videos and streams, and videos written."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anynpu.vision.frames import VideoWriter, open_frames
from anynpu.vision.pictures import write_picture


def picture(number: int) -> np.ndarray:
    pixels = np.zeros((46, 65, 3), np.uint8)
    pixels[..., number % 3] = 40 + 20 * number
    return pixels


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    with VideoWriter(path, 12.0) as writer:
        for number in range(6):
            writer.write(picture(number))
    return path


def check(path: str, kind: str) -> None:
    with open_frames(path) as frames:
        found = list(frames)
        assert (frames.kind, frames.rate, len(found)) == (kind, 12.0, 6)
    assert [frame.name for frame in found] == [f"{path}#{number}" for number in range(6)]
    for number, frame in enumerate(found):
        assert frame.pixels.shape == (46, 64, 3)
        np.testing.assert_allclose(frame.pixels[20, 30], picture(number)[20, 30], atol=12)


def test_a_video_comes_back_as_it_was_written(video: Path) -> None:
    check(str(video), "video")
    with open_frames(video) as frames:
        assert frames.total == 6


@pytest.fixture
def server(video: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(video.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}/{video.name}"
        served.shutdown()
        thread.join()


def test_a_stream_is_read_from_its_address(server: str) -> None:
    check(server, "camera")


def test_pictures_and_folders(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        write_picture(tmp_path / f"{number}.png", picture(number))
    (tmp_path / "notes.txt").write_text("no picture")
    with open_frames(tmp_path) as frames:
        assert (frames.kind, frames.total) == ("folder", 3)
        for number, frame in enumerate(frames):
            assert frame.name == str(tmp_path / f"{number}.png")
            np.testing.assert_array_equal(frame.pixels, picture(number))
    with open_frames(tmp_path / "1.png") as frames:
        assert (frames.kind, frames.total, len(list(frames))) == ("picture", 1, 1)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.mp4", "there is no such picture, folder, video or camera"),
        ("text.mp4", "is no picture or video that can be read"),
        ("empty.png", "is no picture"),
        ("folder", "there are no pictures in it"),
        ("63", r"camera 63 can't be opened.*group video"),
        ("rtsp://127.0.0.1:1/none", "is no picture or video that can be read"),
    ],
)
def test_what_is_not_there_is_told(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.mp4").write_text("no video")
    Path("empty.png").touch()
    Path("folder").mkdir()
    with pytest.raises(OSError, match=message):
        open_frames(source)


def test_a_video_that_can_t_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="can't be written as a video"):
        VideoWriter(tmp_path / "clip.unknown", 10)


@pytest.mark.parametrize("name", ["clip.png", "clip"])
def test_a_name_that_is_no_video_s_is_told_at_once(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"name it \.mp4"):
        VideoWriter(tmp_path / name, 10)


def test_several_pictures_come_like_a_folder_s(tmp_path: Path) -> None:
    paths = [tmp_path / "b.png", tmp_path / "broken.png", tmp_path / "a.png"]
    for number, path in enumerate(paths):
        write_picture(path, picture(number))
    paths[1].write_text("no picture")
    told: list[OSError] = []
    with open_frames(*paths, unreadable=told.append) as frames:
        assert (frames.kind, frames.total, frames.files) == ("folder", 3, paths)
        assert [frame.name for frame in frames] == [str(paths[0]), str(paths[2])]
    assert ["broken.png" in str(error) for error in told] == [True]
    with open_frames(*paths) as frames, pytest.raises(OSError, match=r"broken\.png"):
        list(frames)
