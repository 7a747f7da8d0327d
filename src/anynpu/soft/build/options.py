"""What a model is built with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .metadata import Shapes


@dataclass(frozen=True)
class BuildOptions:
    """What a vendor's compiler would be told.

    `soc` is the chip's name (None: the vendor's usual one for the file's kind). `mean` and `std`
    give, for an input's name, a number for each channel: (x - mean) / std is computed before the
    model's own. `shapes` lists sets of input shapes: one fixes the model's shapes, several make it
    dynamic, beginning with the largest. `quantize` is a folder of images or arrays to calibrate
    with (None leaves the model in float16), read as BGR where `bgr` says so. `custom_string` is
    what RKNN_QUERY_CUSTOM_STRING answers. `remove_weights` leaves the weights out: such a model
    runs on those of another one that differs from it in its shapes alone
    (RKNN_FLAG_SHARE_WEIGHT_MEM).

    `quantize_type` says what calibrating makes of the tensors at the edges: "int8", which is uint8
    for Allwinner's chips as their toolkit has it, or "int16", dynamic fixed point for these chips
    with the arithmetic inside left in float.
    """

    soc: str | None = None
    mean: Mapping[str, Sequence[float]] = field(default_factory=dict)
    std: Mapping[str, Sequence[float]] = field(default_factory=dict)
    shapes: Sequence[Shapes] = ()
    quantize: str | os.PathLike[str] | None = None
    bgr: bool = False
    custom_string: str = ""
    remove_weights: bool = False
    quantize_type: str = "int8"
