"""Detectors on the soft NPU: right answers on photographs, and what they say of mistakes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from skimage import data

import anynpu
from anynpu.errors import InputWarning, OptionError, TensorError
from anynpu.layouts import dequantize_affine, nc1hwc2_to_nchw
from anynpu.tensor import Layout
from anynpu.vision import Detections, Detector, DetectorWarning
from anynpu.vision.cells import Output
from anynpu.vision.heads import HEADS
from anynpu.vision.labels import COCO

from .encoders import Thing
from .models import constant

Shared = Callable[[str], Path]
GREY = np.full((40, 60, 3), 90, np.uint8)


def photographs() -> dict[str, NDArray[np.uint8]]:
    return {
        "person": data.astronaut(),
        "cat": data.chelsea(),
        "cup": data.coffee(),
        "motorcycle": data.stereo_motorcycle()[0],
    }


def session(model: bytes | Path, **options: Any) -> anynpu.InferenceSession:
    return anynpu.InferenceSession(model, provider_options={"library": "soft", **options})


@pytest.fixture(scope="module")
def yolox(shared_model: Shared) -> Iterator[anynpu.InferenceSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYNPU_DEVICE", "soft")
        with session(shared_model("yolox_nano_416.onnx")) as opened:
            yield opened


def iou(one: NDArray[Any], other: NDArray[Any]) -> float:
    shared = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    if (shared <= 0).any():
        return 0.0
    both = sum(float(np.prod(box[2:] - box[:2])) for box in (one, other))
    inside = float(np.prod(shared))
    return inside / (both - inside)


def test_the_right_things_are_found_in_photographs(yolox: anynpu.InferenceSession) -> None:
    """And in the same order from a stream."""
    detector = Detector(yolox, "yolox")
    pictures = photographs()
    for (name, picture), found in zip(
        pictures.items(), detector.stream(pictures.values()), strict=True
    ):
        best = next(iter(found))
        assert best.name == name
        assert best.score > 0.6
        x1, y1, x2, y2 = best.box
        assert 0 <= x1 < x2 <= picture.shape[1]
        assert 0 <= y1 < y2 <= picture.shape[0]
        assert (x2 - x1) * (y2 - y1) > 0.15 * picture.shape[0] * picture.shape[1]
    one_by_one = detector(pictures["motorcycle"])
    np.testing.assert_array_equal(one_by_one.boxes, found.boxes)


@pytest.mark.parametrize(
    "change",
    [
        lambda rgb: rgb.mean(axis=2).astype(np.uint8),
        lambda rgb: np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)]),
        lambda rgb: rgb[:, ::-1],
    ],
    ids=["grey", "RGBA", "mirrored"],
)
def test_a_cup_is_a_cup_in_grey_with_alpha_and_mirrored(
    yolox: anynpu.InferenceSession, change: Callable[[Any], Any]
) -> None:
    assert "cup" in Detector(yolox, "yolox")(change(data.coffee())).names


def test_pictures_of_one_pixel_and_none_have_nothing_in_them(
    yolox: anynpu.InferenceSession,
) -> None:
    detector = Detector(yolox, "yolox")
    assert not len(detector(np.zeros((1, 1, 3), np.uint8)))
    assert list(detector.stream([])) == []
    with pytest.raises(TensorError, match="the picture is empty"):
        list(detector.stream([np.zeros((0, 3, 3), np.uint8)]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_dtype": "model"},
        {"output_layout": "native", "output_dtype": "model"},
        {"output_layout": "nhwc", "layout": "nhwc"},
    ],
    ids=str,
)
def test_boxes_of_int8_are_those_of_float(compiled_sample: Shared, options: dict[str, Any]) -> None:
    """YOLOv3-tiny compiled for RK3588, against ONNX Runtime's outputs of its source."""
    path = compiled_sample("rk3588/yolov3_tiny_416_i8")
    sample = np.load(path.with_suffix(".npz"))
    real = [
        Output(f"head{n}", sample[f"ort{n}"].shape, sample[f"ort{n}"], Layout.NCHW, None)
        for n in range(2)
    ]
    picture = sample["in0"][0]
    with session(path, **options) as opened:
        detector = Detector(opened, threshold=0.2)
        assert detector.head_name == "yolov3-tiny"
        integers = detector(picture)
        floats = detector.decode(real, (416, 416))
    assert integers.names == floats.names
    assert len(integers)
    for one, other in zip(integers.boxes, floats.boxes, strict=True):
        assert iou(one, other) > 0.9
    with anynpu.Model(path, library="soft") as model:
        assert Detector(model, threshold=0.2)(picture).as_dicts() == integers.as_dicts()


def test_the_coco_example_number_for_number() -> None:
    """YOLOv8 as RV1106 gives it: one int8 output of channel blocks, boxes in parts of the picture.

    The reference is the documented way: unpack, dequantise, take each cell's best class, drop what
    is below the threshold, scale boxes to the picture.
    """
    noise = np.random.default_rng(5)
    cells, size, (width, height) = 2100, (320, 320), (640, 427)
    values = noise.uniform(0, 0.5, (1, 84, cells, 1)).astype(np.float32)
    surest = noise.choice(cells, 40, replace=False)
    values[0, 4 + noise.integers(0, 80, 40), surest, 0] = noise.uniform(0.45, 1, 40)
    model = constant([values], size, quantization=[(1 / 255, -128)])
    picture = noise.integers(0, 256, (height, width, 3), dtype=np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYNPU_SOC", "rv1106")
        with anynpu.Model(model, library="soft") as opened:
            assert opened.output_attrs[0].shape == (1, 6, 2100, 1, 16)
            detector = Detector(
                opened, "yolov8", threshold=0.51, overlap=1.0, is_stretched=True, std=1
            )
            found = detector(picture)
            raw = opened.output_raw(0)
            flat = nc1hwc2_to_nchw(raw, 84)[0, :, :, 0]
    scale, zero_point = float(np.float32(1 / 255)), -128
    reals = dequantize_affine(np.ascontiguousarray(flat), scale, zero_point)
    expected = []
    for cell in range(cells):
        best = int(reals[4:, cell].argmax())
        score = reals[4 + best, cell]
        if score < np.float32(0.51):
            continue
        cx, cy, w, h = reals[:4, cell] * np.array([width, height, width, height], np.float32)
        box = np.clip([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 0, [width, height] * 2)
        if w > 0 and h > 0:
            expected.append((COCO[best], float(score), box))
    ours = sorted((each.name, each.score, each.box) for each in found)
    assert len(expected) > 20
    for (name, score, box), known in zip(ours, sorted(expected, key=_key), strict=True):
        assert (name, score) == known[:2]
        np.testing.assert_allclose(box, known[2], atol=1e-3)


def _key(found: tuple[str, float, NDArray[Any]]) -> tuple[str, float, tuple[float, ...]]:
    return found[0], found[1], tuple(found[2].tolist())


# ------------------------------------------------------------------------------- what is said


def yolov8(scores: float = 0.0, quantization: tuple[float, int] = (1 / 255, -128)) -> bytes:
    """A YOLOv8 of 32 x 32 pixels with an output of its own for boxes in parts and scores."""
    values = np.full((1, 84, 21), scores, np.float32)
    values[:, :4] = 0.5
    return constant([values], quantization=[quantization])


def test_a_threshold_of_no_opinion_is_warned_of() -> None:
    with session(yolov8(0.5, (1 / 256, -128)), output_dtype="model") as opened:
        detector = Detector(opened, "yolov8", threshold=0.5, std=1)
        with pytest.warns(DetectorWarning, match=r"sigmoid\(0\) = 0.5.*use 0.51"):
            assert len(detector(GREY))
        detector(GREY)  # once
        assert not len(Detector(opened, "yolov8", threshold=0.51, std=1)(GREY))


def test_scores_that_are_lost_in_steps_of_pixels_are_warned_of() -> None:
    with session(yolov8(0.9, (2.5, -128)), output_dtype="model") as opened:
        detector = Detector(opened, "yolov8", std=1)
        with pytest.warns(DetectorWarning, match="steps of 2.5"):
            detector(GREY)


def test_pixels_are_normalised_where_the_file_does_not_and_it_is_said() -> None:
    with session(yolov8()) as opened:
        with pytest.warns(InputWarning, match=r"no normalisation.*\(pixel - 0\) / 255"):
            Detector(opened, "yolov8")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Detector(opened, "yolov8", std=255)
            Detector(opened, "yolov8", std=(1, 1, 1))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"head": "yolov5"}, TensorError, r"takes .* the model.* has .*1x84x21.*those of yolov8"),
        ({"head": "yolov99"}, OptionError, "there is no head 'yolov99'; there are yolov3-tiny"),
        ({"head": "yolov8", "names": ["one", "two"]}, OptionError, "80 classes apart, and 2 names"),
        ({"threshold": 0.0}, OptionError, "threshold is 0.0"),
        ({"overlap": 1.5}, OptionError, "overlap is 1.5"),
        ({"head": HEADS["ssd"][0]}, TensorError, "Ssd takes"),
    ],
    ids=str,
)
def test_mistakes_say_what_was_expected(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with session(yolov8()) as opened, pytest.raises(error, match=message):
        Detector(opened, std=1, **options)


def test_a_network_that_takes_no_picture_is_refused() -> None:
    values = np.zeros((1, 84, 21), np.float32)
    with (
        session(constant([values], channels=5)) as opened,
        pytest.raises(TensorError, match="has 5"),
    ):
        Detector(opened)


def test_a_network_of_grey_pictures_gets_grey() -> None:
    values = np.zeros((1, 84, 21), np.float32)
    with session(constant([values], channels=1)) as opened:
        assert not len(Detector(opened, "yolov8", std=1)(GREY))


# ------------------------------------------------------------------------------- what is found


def found(count: int = 2) -> Detections:
    boxes = np.array([[1, 2, 30, 20], [10, 10, 40, 39]], np.float32)[:count]
    scores, classes = np.array([0.9, 0.5], np.float32)[:count], np.array([0, 41])[:count]
    return Detections(boxes, scores, classes, ("person", "cup")[:count], (60, 40))


def test_detections_become_supervision_s_and_json() -> None:
    import supervision

    things = found().to_supervision()
    assert isinstance(things, supervision.Detections)
    assert list(things.data["class_name"]) == ["person", "cup"]
    assert things.confidence is not None
    assert things.area.tolist() == pytest.approx([29 * 18, 30 * 29])
    assert len(found(0).to_supervision()) == 0
    assert json.loads(json.dumps(found().as_dicts()))[1] == {
        "name": "cup", "class": 41, "score": 0.5, "box": [10.0, 10.0, 40.0, 39.0],
    }  # fmt: skip


def test_masks_lie_in_their_boxes_in_the_picture() -> None:
    """A disc in the prototypes is the same disc in the picture's pixels."""
    size, picture = (64, 64), np.zeros((48, 96, 3), np.uint8)
    thing = Thing((32, 32), (40, 30), 0, 0.9)
    cells = np.zeros((1, 4 + 1 + 32, 84), np.float32)
    cells[0, :4, 20] = *thing.centre, *thing.extent
    cells[0, 4, 20] = thing.score
    cells[0, 5, 20] = 1.0
    y, x = np.mgrid[:16, :16]
    disc = 4.0 - np.hypot(x - 7.5, y - 7.5)
    prototypes = np.zeros((1, 32, 16, 16), np.float32)
    prototypes[0, 0] = disc
    with session(constant([cells, prototypes], size)) as opened:
        things = Detector(opened, "yolov8-seg", std=1)(picture)
    masks = things.masks()
    assert masks is not None
    (mask,) = masks
    assert mask.shape == picture.shape[:2]
    # The picture fills the middle of the canvas, two thirds as large: the disc's radius is 24.
    rows, columns = np.nonzero(mask)
    assert (columns.mean(), rows.mean()) == pytest.approx((47.5, 23.5), abs=0.5)
    assert columns.max() - columns.min() == pytest.approx(48, abs=3)
    x1, y1, x2, y2 = things.boxes[0]
    assert int(y1) <= rows.min()
    assert rows.max() < y2
    assert mask[:, : int(x1)].sum() == 0
    assert mask[:, int(np.ceil(x2)) :].sum() == 0
    assert things.as_dicts()[0]["area"] == mask.sum()


def test_keypoints_are_in_the_picture_s_pixels() -> None:
    cells = np.zeros((1, 4 + 1 + 51, 84), np.float32)
    cells[0, :5, 3] = 32, 32, 20, 20, 0.8
    cells[0, 5:8, 3] = 32, 32, 0.7
    with session(constant([cells], (64, 64))) as opened:
        things = Detector(opened, "yolov8-pose", std=1, names=["person"])(
            np.zeros((48, 96, 3), np.uint8)
        )
    assert things.keypoints is not None
    np.testing.assert_allclose(things.keypoints[0, 0], (48, 24, 0.7), atol=1e-3)
    points = things.to_supervision_key_points()
    assert points.xy.shape == (1, 17, 2)
