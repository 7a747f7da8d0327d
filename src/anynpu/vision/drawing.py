"""Boxes, masks, keypoints and texts drawn into a picture, by the library supervision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import supervision

from .classifier import Classification
from .detections import Detections
from .pictures import Pixels
from .text_reader import TextLine

_INK = (220, 30, 30)
_LEAST_CONFIDENCE = 0.5


def draw_detections(rgb: Pixels, found: Detections) -> Pixels:
    """A copy of a picture with what was found in it."""
    scene: Pixels = rgb.copy()
    if not len(found):
        return scene
    things = found.to_supervision()
    thickness = supervision.calculate_optimal_line_thickness(resolution_wh=found.picture)
    scale = supervision.calculate_optimal_text_scale(resolution_wh=found.picture)
    labels = [f"{each.name} {each.score:.2f}" for each in found]
    annotators: list[Any] = [supervision.BoxAnnotator(thickness=thickness)]
    if found.mask_crops is not None:
        annotators.insert(0, supervision.MaskAnnotator())
    for annotator in annotators:
        scene = annotator.annotate(scene, things)
    if found.keypoints is not None:
        scene = _draw_points(scene, found, thickness)
    label = supervision.LabelAnnotator(text_scale=scale, smart_position=True)
    labelled: Pixels = label.annotate(scene, things, labels=labels)
    return labelled


def draw_lines(rgb: Pixels, lines: Sequence[TextLine]) -> Pixels:
    """A copy of a picture with the lines of text boxed."""
    scene: Pixels = rgb.copy()
    corners = [np.rint(line.corners).astype(np.int32) for line in lines]
    cv2.polylines(scene, corners, isClosed=True, color=_INK, thickness=1, lineType=cv2.LINE_AA)
    return scene


def draw_classification(rgb: Pixels, found: Classification) -> Pixels:
    """A copy of a picture with the likeliest class written in it."""
    size = (rgb.shape[1], rgb.shape[0])
    scale = supervision.calculate_optimal_text_scale(resolution_wh=size)
    text = f"{found.names[0]} {found.scores[0]:.2f}"
    whole = supervision.Detections(
        xyxy=np.array([[0, 0, *size]], np.float32), class_id=np.zeros(1, np.intp)
    )
    place = supervision.Position.TOP_LEFT
    label = supervision.LabelAnnotator(text_scale=scale, text_position=place, smart_position=True)
    drawn: Pixels = label.annotate(rgb.copy(), whole, labels=[text])
    return drawn


def _draw_points(scene: Pixels, found: Detections, thickness: int) -> Pixels:
    """Points that are sure, and the bones between them where they are a person's 17."""
    points = found.to_supervision_key_points()
    confidence = points.keypoint_confidence
    if confidence is not None:
        points.xy[confidence < _LEAST_CONFIDENCE] = 0
    radius = 2 * thickness
    bones = supervision.EdgeAnnotator(thickness=thickness)
    drawn: Pixels = bones.annotate(scene, points) if points.xy.shape[1] == 17 else scene
    marked: Pixels = supervision.VertexAnnotator(radius=radius).annotate(drawn, points)
    return marked
