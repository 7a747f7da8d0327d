"""Features and windows as the kernels' structures: what `layout` says of them, no byte more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .....native.memory import address_of
from ..interning import shared
from ..layout import feature_views, image_view
from ..memory import Memory
from ..tasks import TABLE_ENTRIES, Convolution, Features, Image, LookupTable, PoolingTask
from . import structures

_STEPS = TABLE_ENTRIES - 1

_EXACT_REACH = 2.0**20
"""Steps from 0 up to which lines beyond the entries are exact in float64."""


def features_of(
    features: Features | Image, memory: Memory, valid: int | None = None
) -> structures.Features:
    """Features, or a picture as one block of few channels; channels from `valid` on are zero."""
    channels = features.channels
    if isinstance(features, Image):
        even, odd = image_view(features), None
        surface, line, pixel = 0, even.strides[0], channels * features.element.size
        surfaces, lanes = 1, channels
    else:
        even, *others = feature_views(features)
        odd = memory.pointer(others[0]) if others else None
        surface, line, pixel, _ = even.strides
        surfaces, lanes = features.surfaces, features.lanes
    return structures.Features(
        base=memory.pointer(even),
        odd=odd,
        surface=surface,
        line=line,
        pixel=pixel,
        surfaces=surfaces,
        lanes=lanes,
        channels=channels,
        valid=channels if valid is None else valid,
        height=features.height,
        width=features.width,
        element=features.element.value,
        readable=even.extent[1] - even.address.offset,
    )


def window_of(convolution: Convolution) -> structures.Window:
    """What one output pixel of a convolution sees."""
    layout = convolution.weights.layout
    return structures.Window(
        layout.height,
        layout.width,
        *convolution.stride,
        *convolution.dilation,
        *convolution.padding,
        *convolution.inserted,
        convolution.height,
        convolution.width,
        convolution.padding_value,
    )


def pooled_window(task: PoolingTask) -> structures.Window:
    """What one output pixel of a pooling sees."""
    return structures.Window(
        *task.kernel, *task.stride, 1, 1, *task.padding, 0, 0, task.height, task.width,
        task.padding_value,
    )  # fmt: skip


def shared_entries(table: LookupTable) -> NDArray[np.float64]:
    """Both tables one after the other; tasks with the same have the same array."""
    return shared(np.concatenate([table.negative, table.positive]))


@dataclass(frozen=True)
class FloatTable:
    """A table for float32: straight lines, and how many steps from 0 they may be used.

    `lines`, (2 * TABLE_ENTRIES, 2), are values at 0 and slopes, of what lies below the first entry,
    between two neighbours each, and beyond the last. Values x lie at value + slope * x.
    """

    lines: NDArray[np.float32]
    reach: float


def shared_floats(table: LookupTable, entries: NDArray[np.float64]) -> FloatTable | None:
    """The lines where kernels may interpolate in float32, else None.

    That takes whole numbers of 16 bits, tables that meet at 0, and lines whose values at 0 float32
    has. From 2^-13 steps on, x is a multiple of 2^-36 of them and a difference of entries has 17
    bits, so that what the reference computes is exact in float64, and one rounding to float32 is
    all there is. Small positive values are exact where the entry of 0 is 0.
    """
    reach = [_STEPS * 2**step for step in table.steps]
    if (table.negative_start, table.positive_start) != (-reach[0], 0):
        return None
    if not 0 <= table.positive_end <= reach[1]:
        return None
    if not np.array_equal(entries, entries.astype(np.int16)):
        return None
    slopes = np.empty(entries.size)
    slopes[1:TABLE_ENTRIES] = np.diff(entries[:TABLE_ENTRIES])
    slopes[TABLE_ENTRIES:-1] = np.diff(entries[TABLE_ENTRIES:])
    beyond = [_slope_beyond(table, side) for side in range(2)]
    slopes[0], slopes[-1] = (slope or 0 for slope in beyond)
    # Of the entry next to 0 on each line.
    places = np.concatenate([np.arange(-_STEPS, 1), np.arange(TABLE_ENTRIES)])
    values = entries - slopes * places
    if not np.array_equal(values, values.astype(np.float32)):
        return None
    steps = 2.0 ** -np.repeat(table.steps, TABLE_ENTRIES)
    lines = np.stack([values, slopes * steps], axis=1).astype(np.float32)
    is_exact = None not in beyond and table.positive_end == reach[1]
    inside = min(_STEPS, table.positive_end / 2 ** table.steps[1])
    return FloatTable(shared(lines), _EXACT_REACH if is_exact else inside)


def _slope_beyond(table: LookupTable, side: int) -> float | None:
    """What a step adds beyond the entries; None where float64 may round what comes of it.

    Up to `_EXACT_REACH` steps, x less the outermost entry is a multiple of 2^-14 below 2^20; the
    slope is one of 16 bits times 2^n, and the entry has 16 bits. Their sum is exact with n from
    -23 to 15.
    """
    slope, n = table.slopes[side], table.steps[side] - table.shifts[side]
    if slope and not (-23 <= n <= 15 and abs(slope) <= 1 << 15):
        return None
    return slope * 2.0**n


def table_of(
    table: LookupTable,
    entries: NDArray[np.float64],
    floats: FloatTable | None = None,
) -> structures.Table:
    """A look-up table, whose entries and lines outlive the structure."""
    return structures.Table(
        address_of(entries),
        None if floats is None else address_of(floats.lines),
        (table.negative_start, table.positive_start),
        table.positive_end,
        tuple(2.0**-step for step in table.steps),
        tuple(slope * 2.0**-shift for slope, shift in zip(table.slopes, table.shifts, strict=True)),
        0 if floats is None else floats.reach,
    )
