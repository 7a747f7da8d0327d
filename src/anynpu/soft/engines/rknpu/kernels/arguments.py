"""Features and windows as the kernels' structures: what `layout` says of them, no byte more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .....native.memory import address_of
from ..interning import shared
from ..layout import feature_views, image_view
from ..memory import Memory
from ..tasks import TABLE_ENTRIES, Convolution, Features, Image, LookupTable, PoolingTask
from . import structures

_STEPS = TABLE_ENTRIES - 1


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


def shared_floats(table: LookupTable, entries: NDArray[np.float64]) -> NDArray[np.float32] | None:
    """The entries as float32 where kernels may interpolate with them, else None.

    That takes whole numbers of 16 bits, a step for each of them from the start to 0, and as many
    or fewer from 0 to the end.
    """
    reach = [steps * 2**step for steps, step in zip((_STEPS, _STEPS), table.steps, strict=True)]
    is_around_zero = (table.negative_start, table.positive_start) == (-reach[0], 0)
    if not is_around_zero or not 0 <= table.positive_end <= reach[1]:
        return None
    is_whole = np.array_equal(entries, entries.astype(np.int16))
    return shared(entries.astype(np.float32)) if is_whole else None


def table_of(
    table: LookupTable,
    entries: NDArray[np.float64],
    floats: NDArray[np.float32] | None = None,
) -> structures.Table:
    """A look-up table, whose entries outlive the structure."""
    return structures.Table(
        address_of(entries),
        None if floats is None else address_of(floats),
        (table.negative_start, table.positive_start),
        table.positive_end,
        tuple(2.0**-step for step in table.steps),
        tuple(slope * 2.0**-shift for slope, shift in zip(table.slopes, table.shifts, strict=True)),
    )
