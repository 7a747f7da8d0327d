"""Pictures of any kind become RGB, or say why not; letterboxes are undone exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from anynpu.errors import ArgumentTypeError, TensorError
from anynpu.vision.letterbox import Fitting, letterbox
from anynpu.vision.pictures import as_rgb, read_picture, write_picture

SIDES = st.integers(1, 700)


def test_every_kind_of_picture_becomes_rgb(tmp_path: Path) -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert as_rgb(rgb) is rgb
    grey = rgb[..., 0]
    for picture in (grey, grey[..., None], Image.fromarray(grey)):
        np.testing.assert_array_equal(as_rgb(picture), np.stack([grey] * 3, axis=-1))
    rgba = np.concatenate([rgb, np.full((5, 7, 1), 9, np.uint8)], axis=2)
    np.testing.assert_array_equal(as_rgb(rgba), rgb)
    np.testing.assert_array_equal(as_rgb(rgb[:, ::-1]), rgb[:, ::-1])
    np.testing.assert_array_equal(as_rgb(grey > 90)[..., 0], np.where(grey > 90, 255, 0))
    path = tmp_path / "picture.png"
    write_picture(path, rgb)
    for source in (path, str(path), Image.open(path)):
        np.testing.assert_array_equal(as_rgb(source), rgb)


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((0, 4, 3), np.uint8), "the picture is empty"),
        (np.zeros((4, 4, 3), np.float32), r"values are uint8.*found float32"),
        (np.zeros((4, 4, 5), np.uint8), r"found the shape \(4, 4, 5\)"),
        (np.zeros((1, 4, 4, 3), np.uint8), "one picture at a time"),
        (np.zeros(4, np.uint8), r"found the shape \(4,\)"),
    ],
    ids=["empty", "float", "channels", "batch", "row"],
)
def test_what_is_no_picture_is_refused(picture: Any, message: str) -> None:
    with pytest.raises(TensorError, match=message):
        as_rgb(picture)


def test_other_types_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="found a list"):
        as_rgb([[1, 2], [3, 4]])  # type: ignore[arg-type]
    for name, data in (("empty.png", b""), ("text.jpg", b"no picture")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(OSError, match="is no picture"):
            read_picture(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        as_rgb(tmp_path / "nowhere.png")
    with pytest.raises(OSError, match=r"name it \.png or \.jpg"):
        write_picture(tmp_path / "picture.doc", np.zeros((2, 2, 3), np.uint8))


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.booleans(), st.booleans())
def test_a_letterbox_is_undone_exactly(
    width: int, height: int, across: int, down: int, is_centred: bool, is_stretched: bool
) -> None:
    fitting = Fitting(is_centred=is_centred, is_stretched=is_stretched)
    place = fitting.place((width, height), (across, down))
    points = np.array([[0.0, 0.0], [width, height], [width / 3, height * 0.7]])
    canvas = place.to_canvas(points)
    np.testing.assert_allclose(place.to_picture(canvas), points, atol=1e-9)
    assert (canvas >= 0).all()
    assert (canvas <= np.array([across, down]) + 1e-9).all()
    np.testing.assert_allclose(canvas[1] - canvas[0], place.size)
    if not is_stretched:
        assert across in place.size[:1] or down in place.size[1:]


def test_the_picture_lies_where_the_placement_says() -> None:
    rgb = np.full((30, 60, 3), 200, np.uint8)
    pixels, place = Fitting(fill=7).fit(rgb, (40, 40))
    (left, top), (width, height) = place.corner, place.size
    assert (left, top, width, height) == (0, 10, 40, 20)
    assert pixels.shape == (40, 40, 3)
    assert (pixels[top : top + height, left : left + width] == 200).all()
    assert (pixels[:top] == 7).all()
    assert (pixels[top + height :] == 7).all()
    one_pixel, _ = Fitting().fit(np.full((1, 1, 3), 9, np.uint8), (16, 8))
    assert (one_pixel[:, 4:12] == 9).all()
    assert letterbox(rgb, 40, 40).pixels[:20].min() == 200
