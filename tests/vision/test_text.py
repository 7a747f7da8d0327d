"""Reading text: PP-OCR's outputs against another implementation, and a page on the soft NPU."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from skimage import data

import anynpu
from anynpu.errors import OptionError, TensorError
from anynpu.soft.build import BuildOptions, build_file
from anynpu.vision import TextReader
from anynpu.vision.text import GROWTH, find_lines
from anynpu.vision.text_reader import DETECTOR, RECOGNISER

from .models import constant

Networks = tuple[anynpu.InferenceSession, anynpu.InferenceSession, list[str]]


@pytest.fixture(scope="module")
def networks(ocr_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networks]:
    """PP-OCR's recogniser and detector, built for the soft NPU, and the characters."""
    folder = tmp_path_factory.mktemp("ocr")
    for name, side, own in (
        ("det", (1, 3, 192, 384), DETECTOR),
        ("rec", (1, 3, 48, 640), RECOGNISER),
    ):
        options = BuildOptions(
            shapes=[{"x": side}],
            mean={"x": np.broadcast_to(own.mean, 3).tolist()},
            std={"x": np.broadcast_to(own.std, 3).tolist()},
        )
        build_file(ocr_models / f"ch_PP-OCRv4_{name}_infer.onnx", folder / f"{name}.rknn", options)
    model = onnx.load(str(ocr_models / "ch_PP-OCRv4_rec_infer.onnx"), load_external_data=False)
    characters = {entry.key: entry.value for entry in model.metadata_props}["character"]
    on_soft = {"library": "soft"}
    with (
        anynpu.InferenceSession(folder / "rec.rknn", provider_options=on_soft) as recogniser,
        anynpu.InferenceSession(folder / "det.rknn", provider_options=on_soft) as detector,
    ):
        yield recogniser, detector, characters.splitlines()


def test_a_page_is_read(networks: Networks) -> None:
    recogniser, detector, characters = networks
    reader = TextReader(recogniser, detector, characters=characters)
    page = data.page()
    lines = reader(page)
    texts = [line.text for line in lines]
    assert texts[0] == "Region-based segmentation"
    assert "histogram of grey values:" in texts
    assert len(texts) == 7
    for line in lines:
        assert line.confidence > 0.5
        assert (line.corners >= -10).all()
        assert (line.corners <= (page.shape[1] + 10, page.shape[0] + 10)).all()
    first = page[8:37, 2:300]
    (alone,) = TextReader(recogniser, characters=characters)(first)
    assert alone.text == "Region-based segmentation"
    assert alone.as_dict()["corners"][2] == [298.0, 29.0]


def test_a_line_that_is_too_long_is_warned_of(networks: Networks) -> None:
    recogniser, _, characters = networks
    reader = TextReader(recogniser, characters=characters)
    picture = np.full((24, 320 * 2, 3), 255, np.uint8)  # the input is 640x48
    with pytest.warns(UserWarning, match=r"2\.0 times as long .* 640x48 .*1,3,48,1280 "):
        reader(picture)
    reader(picture[:, :390])


def test_lines_are_where_another_implementation_finds_them(networks: Networks) -> None:
    """RapidOCR's own post-processing of the same map."""
    if find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("rapidocr-onnxruntime is not installed (anynpu[demo], Python < 3.13)")
    utils = import_module("rapidocr_onnxruntime.ch_ppocr_det.utils")
    peer = utils.DBPostProcess(thresh=0.3, box_thresh=0.6, unclip_ratio=1.6, use_dilation=False)
    _, detector, _ = networks
    page = np.zeros((192, 384, 3), np.uint8)
    page[:191] = data.page()[..., None]
    (probabilities,) = detector.run(None, page.transpose(2, 0, 1)[None])
    boxes, _ = peer(probabilities, (192, 384))[:2]
    ours = find_lines(probabilities[0, 0])
    # It averages over rectangles, of which some are below the threshold.
    assert len(ours) >= len(boxes) >= 4
    centres = np.array([line.corners.mean(axis=0) for line in ours])
    for box in np.asarray(boxes, np.float64):
        nearest = ours[int(np.abs(centres - box.mean(axis=0)).sum(axis=1).argmin())]
        # It cuts boxes off at the map's edges.
        limits = (probabilities.shape[3], probabilities.shape[2])
        low, high = (
            np.clip(ends, 0, limits)
            for ends in (nearest.corners.min(axis=0), nearest.corners.max(axis=0))
        )
        np.testing.assert_allclose(low, box.min(axis=0), atol=4)
        np.testing.assert_allclose(high, box.max(axis=0), atol=4)


def test_lines_of_a_row_go_from_left_to_right() -> None:
    """Three blocks in a row and one below them, whose text is turned by a quarter."""
    probabilities = np.zeros((100, 200), np.float32)
    for x in (140, 80, 20):
        probabilities[20 + x // 40 : 30 + x // 40, x : x + 40] = 0.9
    probabilities[50:90, 100:106] = 0.9
    probabilities[70:72, 20:22] = 0.9  # too small
    probabilities[95:99, 20:60] = 0.4  # too unsure
    lines = find_lines(probabilities, 2.0)
    assert [round(line.corners[:, 0].mean() * 2) for line in lines] == [40, 100, 160, 103]
    assert all(line.width > line.height for line in lines)
    margin = 40 * 10 * GROWTH / (2 * 50)
    assert lines[0].width * 2 == pytest.approx(40 + 2 * margin, abs=0.1)


def test_mistakes_say_what_was_expected(networks: Networks) -> None:
    recogniser, _, characters = networks
    with pytest.raises(
        OptionError, match="6624 characters and a blank apart, and characters has 3"
    ):
        TextReader(recogniser, characters=["a", "b", "c"])
    with pytest.raises(TensorError, match=r"a detector of text .* \(1, 1, 48, 640\)"):
        TextReader(recogniser, recogniser, characters=characters)
    with pytest.raises(OptionError, match="no detector"):
        TextReader(recogniser, characters=characters).find(data.page())
    boxes = constant([np.zeros((1, 84, 21), np.float32), np.zeros((1, 2), np.float32)])
    with anynpu.InferenceSession(boxes) as other, pytest.raises(TensorError, match="a recogniser"):
        TextReader(other, characters="abc")
