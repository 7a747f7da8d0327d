"""Whether a model normalises pixels itself, or wants them normalised."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InputWarning
from ..rknn.normalization import NONE, Normalization

Channels = float | Sequence[float] | None
"""A number for all channels or one for each, or None."""


def given(mean: Channels, std: Channels) -> Normalization | None:
    """What a caller asks for; None where nothing is asked."""
    if mean is None and std is None:
        return None
    return Normalization(_numbers(mean, 0.0), _numbers(std, 1.0))


def scaled_to(pixel_range: float) -> Normalization:
    """What networks want that were trained on pixels of 0 to `pixel_range`."""
    return Normalization((0.0,), (255 / pixel_range,))


def chosen(
    asked: Normalization | None, found: Normalization | None, usual: Normalization
) -> Normalization:
    """What is done here to pixels before they go to a model.

    `found` is what the model's file does, None where that isn't known, `usual` what networks of
    its kind want. A file that does nothing is helped with that, which is said as an `InputWarning`.
    """
    if asked is not None:
        return asked
    if usual.is_identity or found is None or not found.is_identity:
        return NONE
    mean, std = (", ".join(f"{number:g}" for number in own) for own in (usual.mean, usual.std))
    warnings.warn(
        f"the model's file has no normalisation, and networks of this kind want (pixel - {mean}) / "
        f"{std}, which is done here: pass std=1 if the network does it itself, or build the model "
        f"with it (--mean, --std)",
        InputWarning,
        stacklevel=3,
    )
    return usual


def asked_or_none(asked: Normalization | None, found: Normalization | None) -> Normalization:
    """What is asked for, or nothing, with an `InputWarning` where a model's file does nothing.

    What classifiers want differs from one to the next, so that it can't be helped with.
    """
    if asked is None and found is not None and found.is_identity:
        warnings.warn(
            "the model's file has no normalisation: it gets pixels of 0 to 255, and most "
            "classifiers want others. Pass what it was trained with, such as mean=127, std=128 "
            "(--mean, --std), or std=1 if it normalises them itself",
            InputWarning,
            stacklevel=3,
        )
    return asked or NONE


def apply(pixels: NDArray[np.uint8], normalization: Normalization) -> NDArray[np.generic]:
    """Pixels as they are, or normalised as float32."""
    return pixels if normalization.is_identity else normalization.apply(pixels)


def _numbers(value: Channels, otherwise: float) -> tuple[float, ...]:
    if value is None:
        return (otherwise,)
    return tuple(map(float, value)) if isinstance(value, Sequence) else (float(value),)
