"""What was found in a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import supervision

    from .masks import MaskCrop


@dataclass(frozen=True)
class Detection:
    """One thing: its box x1, y1, x2, y2 in the picture's pixels, its score and its class."""

    box: tuple[float, float, float, float]
    score: float
    class_id: int
    name: str


@dataclass(frozen=True)
class Detections:
    """Things in one picture, the surest first.

    `boxes` is float32 (n, 4): x1, y1, x2, y2 in the picture's own pixels, within it. `scores` is
    float32 (n,), `classes` (n,) and `names` a name for each. `keypoints`, float32 (n, points, 3),
    are x, y and confidence, `mask_crops` the masks inside of the boxes; None where the network has
    none. `picture` is the picture's (width, height).
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.intp]
    names: tuple[str, ...]
    picture: tuple[int, int]
    keypoints: NDArray[np.float32] | None = None
    mask_crops: tuple[MaskCrop, ...] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Detection]:
        for box, score, number, name in zip(
            self.boxes.tolist(),
            self.scores.tolist(),
            self.classes.tolist(),
            self.names,
            strict=True,
        ):
            yield Detection(tuple(box), score, number, name)

    def masks(self) -> NDArray[np.bool_] | None:
        """Whole masks, bool (n, height, width), made anew; None where the network has none."""
        if self.mask_crops is None:
            return None
        width, height = self.picture
        masks = np.zeros((len(self), height, width), np.bool_)
        for mask, crop in zip(masks, self.mask_crops, strict=True):
            crop.paste(mask)
        return masks

    def to_supervision(self) -> supervision.Detections:
        """The same for the library supervision, which draws, tracks, counts and filters."""
        import supervision

        return supervision.Detections(
            xyxy=self.boxes.reshape(-1, 4),
            mask=self.masks() if len(self) else None,
            confidence=self.scores,
            class_id=self.classes,
            data={"class_name": np.array(self.names, dtype=np.str_)},
        )

    def to_supervision_key_points(self) -> supervision.KeyPoints:
        """The keypoints for the library supervision; none where the network has none."""
        import supervision

        if self.keypoints is None or not len(self):
            return supervision.KeyPoints.empty()
        return supervision.KeyPoints(
            xy=self.keypoints[..., :2].copy(),
            keypoint_confidence=self.keypoints[..., 2].copy(),
            detection_confidence=self.scores,
            class_id=self.classes,
            data={"class_name": np.array(self.names, dtype=np.str_)},
        )

    def as_dicts(self) -> list[dict[str, Any]]:
        """A dict for each, of plain numbers and texts, such as for JSON."""
        found = []
        for index, each in enumerate(self):
            entry: dict[str, Any] = {
                "name": each.name,
                "class": each.class_id,
                "score": round(each.score, 4),
                "box": [round(value, 2) for value in each.box],
            }
            if self.keypoints is not None:
                entry["keypoints"] = self.keypoints[index].round(2).tolist()
            if self.mask_crops is not None:
                entry["area"] = self.mask_crops[index].area
            found.append(entry)
        return found
