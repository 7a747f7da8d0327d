"""Heads read the boxes put into their outputs, from floats, integers and channel blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.errors import OptionError, TensorError
from anynpu.layouts import dequantize_affine, nchw_to_nc1hwc2
from anynpu.tensor import Layout
from anynpu.vision import heads
from anynpu.vision.cells import Output
from anynpu.vision.heads import HEADS, Candidates, Head
from anynpu.vision.heads.ssd import mobilenet_priors

from .encoders import CLASSES, ENCODERS, SIZE, Thing, columns, distances, outputs, quantised

THRESHOLD = 0.3


@st.composite
def things(draw: st.DrawFn) -> list[Thing]:
    """Some things, each in a quarter of the picture of its own, away from their cells' edges."""
    found = []
    for quarter in draw(st.sets(st.integers(0, 3), min_size=1)):
        width = draw(st.integers(20, 160))
        height = width * draw(st.sampled_from([0.75, 1.0, 1.75]))
        offset = st.sampled_from([3.5, 12.25])
        x = SIZE[0] // 2 * (quarter % 2) + 32 * draw(st.integers(1, 3)) + draw(offset)
        y = SIZE[1] // 2 * (quarter // 2) + 32 * draw(st.integers(1, 2)) + draw(offset)
        score = draw(st.sampled_from([0.35, 0.5, 0.75, 0.9]))
        found.append(Thing((x, y), (width, height), draw(st.integers(0, CLASSES - 1)), score))
    return found


def form(name: str, given: list[Output]) -> Head:
    """The form of a head that fits."""
    return heads.choose(name, given, SIZE)[1]


def ordered(found: Candidates) -> list[tuple[int, tuple[float, ...], float]]:
    rows = zip(found.classes.tolist(), found.boxes.tolist(), found.scores.tolist(), strict=True)
    return sorted((number, tuple(box), score) for number, box, score in rows)


@pytest.mark.parametrize("name", ENCODERS)
@settings(max_examples=10, deadline=None)
@given(things())
def test_what_is_encoded_is_decoded(name: str, known: list[Thing]) -> None:
    head, encode = ENCODERS[name]
    given_outputs = outputs(encode(known))
    found = form(head, given_outputs).decode(given_outputs, SIZE, THRESHOLD)
    shift = 1 if head == "ssd" else 0  # class 0 is nothing
    expected = sorted((thing.class_id + shift, thing.box, thing.score) for thing in known)
    assert [number for number, _, _ in ordered(found)] == [number for number, _, _ in expected]
    for (_, box, score), (_, known_box, known_score) in zip(ordered(found), expected, strict=True):
        np.testing.assert_allclose(box, known_box, atol=0.02)
        assert score == pytest.approx(known_score, abs=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
@settings(max_examples=5, deadline=None)
@given(things(), st.sampled_from(["int8", "int8", "uint8", "int16"]), st.integers(0, 2**32 - 1))
def test_integers_first_is_what_dequantising_all_gives(
    name: str, known: list[Thing], dtype: str, seed: int
) -> None:
    """Bit for bit, with noise in all cells."""
    head, encode = ENCODERS[name]
    noise = np.random.default_rng(seed)
    integers, reals = [], []
    for output in outputs(encode(known)):
        values = output.values + noise.choice([0, 0, 0.05, 0.4], output.shape)
        stored, quantization = quantised(values.astype(np.float32), dtype)
        real = dequantize_affine(stored, quantization.scale, quantization.zero_point)
        integers.append(replace(output, values=stored, quantization=quantization))
        reals.append(replace(output, values=real))
    first = form(head, integers).decode(integers, SIZE, THRESHOLD)
    after = form(head, reals).decode(reals, SIZE, THRESHOLD)
    assert ordered(first) == ordered(after)


@pytest.mark.parametrize("name", [name for name in ENCODERS if "single" not in name])
@settings(max_examples=4, deadline=None)
@given(things(), st.sampled_from([8, 16]))
def test_channel_blocks_are_read_as_planes_are(name: str, known: list[Thing], c2: int) -> None:
    head, encode = ENCODERS[name]
    planes, blocks = [], []
    for output in outputs(encode(known)):
        stored, quantization = quantised(output.values)
        plane = replace(output, values=stored, quantization=quantization)
        planes.append(plane)
        if stored.ndim == 4:
            packed = nchw_to_nc1hwc2(stored, c2)
            plane = replace(plane, values=packed, layout=Layout.NC1HWC2)
        blocks.append(plane)
    first = form(head, planes).decode(planes, SIZE, THRESHOLD)
    assert ordered(first) == ordered(form(head, blocks).decode(blocks, SIZE, THRESHOLD))


def test_masks_and_keypoints_come_with_their_boxes() -> None:
    known = [Thing((100, 90), (40, 60), 2, 0.8), Thing((240, 180), (30, 30), 4, 0.6)]
    plain, scale = columns()(known)[0], np.arange(32, dtype=np.float32)[:, None]
    number = np.arange(plain.shape[2], dtype=np.float32)
    prototypes = np.zeros((1, 32, SIZE[1] // 4, SIZE[0] // 4), np.float32)
    with_masks = np.concatenate([plain, (scale + number)[None]], axis=1)
    given_outputs = outputs([with_masks, prototypes])
    found = form("yolov8-seg", given_outputs).decode(given_outputs, SIZE, THRESHOLD)
    cells = np.flatnonzero(plain[0, 4:].max(axis=0))
    np.testing.assert_array_equal(found.coefficients, (scale + cells).T)
    assert found.prototypes is not None
    assert found.prototypes.shape == prototypes.shape[1:]

    points = np.tile(np.arange(51, dtype=np.float32)[:, None] + 3, (1, plain.shape[2]))
    given_outputs = outputs([np.concatenate([plain, points[None]], axis=1)])
    found = form("yolov8-pose", given_outputs).decode(given_outputs, SIZE, THRESHOLD)
    assert found.keypoints is not None
    np.testing.assert_array_equal(found.keypoints[1].ravel(), np.arange(51) + 3)


def test_split_heads_with_masks_and_keypoints() -> None:
    known = [Thing((100, 90), (40, 30), 2, 0.8), Thing((240, 180), (200, 130), 4, 0.6)]
    parts = distances(16)(known)
    grouped: list[np.ndarray] = []
    fused = []
    for scale in range(3):
        boxes, scores, sums = parts[3 * scale : 3 * scale + 3]
        each = np.full((1, 32, *boxes.shape[2:]), scale + 1.0, np.float32)
        grouped += [boxes, scores, sums, each]
        fused.append(np.concatenate([boxes, scores], axis=1))
    given_outputs = outputs([*grouped, np.zeros((1, 32, SIZE[1] // 4, SIZE[0] // 4), np.float32)])
    found = form("yolo11-seg", given_outputs).decode(given_outputs, SIZE, THRESHOLD)
    assert found.coefficients is not None
    assert found.coefficients[:, 0].tolist() == [1.0, 3.0]

    cells = sum(grid.shape[2] * grid.shape[3] for grid in fused)
    keypoints = np.broadcast_to(np.arange(cells, dtype=np.float32), (1, 17, 3, cells)).copy()
    given_outputs = outputs([*fused, keypoints])
    found = form("yolov8-pose", given_outputs).decode(given_outputs, SIZE, THRESHOLD)
    assert found.keypoints is not None
    first, second = found.keypoints[:, 3, 2].astype(int)
    assert divmod(first, SIZE[0] // 8) == (90 // 8, 100 // 8)
    before = sum((SIZE[0] // stride) * (SIZE[1] // stride) for stride in (8, 16))
    assert divmod(second - before, SIZE[0] // 32) == (180 // 32, 240 // 32)


def test_priors_are_those_that_tensorflow_lists() -> None:
    """The first and last of the 1,917 of SSD MobileNet at 300x300, and their sums."""
    priors = mobilenet_priors((300, 300))
    assert priors.shape == (1917, 4)
    np.testing.assert_allclose(priors[0], (1 / 38, 1 / 38, 0.1, 0.1), atol=1e-6)
    np.testing.assert_allclose(priors[1], (1 / 38, 1 / 38, 0.14142136, 0.28284273), atol=1e-6)
    np.testing.assert_allclose(priors[-1], (0.5, 0.5, 0.9746794, 0.9746794), atol=1e-6)


def test_a_head_that_does_not_fit_says_what_would() -> None:
    split = outputs(distances(16)([]))
    with pytest.raises(TensorError, match=r"(?s)yolov5.*1 x \(1, 3|3 x \(1, 3.*yolov8"):
        heads.choose("yolov5", split, SIZE)
    with pytest.raises(OptionError, match="there is no head 'yolov99'"):
        heads.choose("yolov99", split, SIZE)
    scores = outputs([np.zeros((1, 1000), np.float32)])
    with pytest.raises(TensorError, match="is a classifier's"):
        heads.choose(None, scores, SIZE)
    nothing = outputs([np.zeros((1, 7, 1000), np.float32)])
    with pytest.raises(TensorError, match=r"for one of yolov3-tiny, .*, or pass a Head"):
        heads.choose(None, nothing, SIZE)


def test_without_a_name_the_only_head_that_fits_is_taken() -> None:
    assert heads.choose(None, outputs(distances(16)([])), SIZE)[0] in ("yolov6", "yolov8", "yolo11")
    assert heads.choose(None, outputs(columns()([])), SIZE)[1] is HEADS["yolov8"][0]
    _, encode = ENCODERS["yolov5 split"]
    with pytest.raises(OptionError, match="yolov5, yolov7"):
        heads.choose(None, outputs(encode([])), SIZE)
