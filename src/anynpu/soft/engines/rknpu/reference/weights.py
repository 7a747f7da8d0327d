"""What a convolution multiplies by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tasks import Convolution


def effective_weights(
    convolution: Convolution, values: NDArray[np.float32], offsets: Any
) -> NDArray[np.float32]:
    """The weights of the channels that are there, plus their offsets: a number, (K, 1, 1), None."""
    channels = convolution.source.channels
    is_depthwise = convolution.weights.layout.is_depthwise
    values = values[:channels] if is_depthwise else values[:, :channels]
    if offsets is None:
        return values
    if np.ndim(offsets) and not is_depthwise:
        offsets = offsets[..., None]
    shifted: NDArray[np.float32] = (values + offsets).astype(np.float32)
    return shifted
