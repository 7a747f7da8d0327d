"""Of boxes that mean the same thing the best one is kept: OpenCV's suppression."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray


def suppress(
    boxes: NDArray[np.float32],
    scores: NDArray[np.float32],
    classes: NDArray[np.intp],
    overlap: float,
    *,
    across_classes: bool = False,
) -> NDArray[np.intp]:
    """The boxes that are kept, the best first.

    Boxes (n, 4) are x1, y1, x2, y2. One goes whose intersection over union with a better one of
    its class, or of any with `across_classes`, is above `overlap`.
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    values: Any = scores
    numbers: Any = classes.astype(np.int32)
    sized: Any = boxes.copy()
    sized[:, 2:] -= boxes[:, :2]
    # OpenCV keeps scores above its threshold, and 0 itself was let through on purpose.
    least = float(np.nextafter(np.float32(scores.min()), np.float32(-np.inf)))
    kept: Any
    if across_classes:
        kept = cv2.dnn.NMSBoxes(sized, values, least, overlap)
    else:
        kept = cv2.dnn.NMSBoxesBatched(sized, values, numbers, least, overlap)
    return np.asarray(kept, np.intp).reshape(-1)
