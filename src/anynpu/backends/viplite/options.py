"""The provider options of Allwinner's NPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ...errors import OptionError
from ...options import Converter, Options, anything, boolean, choice, option, path, positive


def _whole(limit: int | None) -> Converter:
    """A converter for a whole number from 0 to a limit."""

    def convert(name: str, value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else int(value.__index__())
        except (ValueError, AttributeError):
            number = -1
        if isinstance(value, bool) or number < 0 or (limit is not None and number > limit):
            most = "" if limit is None else f" to {limit}"
            raise OptionError(f"{name} is {value!r}; it takes a whole number from 0{most}")
        return number

    return convert


@dataclass(frozen=True)
class VipliteOptions(Options):
    """What a session on an Allwinner NPU takes in addition.

    What the common options call a core is a device of the driver's here: `schedule` lists devices
    by their index, and `threads_per_core` (`workers`) networks that share the weights take turns on
    each; with two of them one's values are converted while the other computes. `device`
    (`device_id`, `device_index`) is the one device to run on, in the place of a schedule; without
    either all devices are used.

    `layout` is how images are given: ``"original"`` (``"nchw"``) as memory has them, in planes, or
    ``"nhwc"``, which is transposed here. `output_layout` says the same of outputs. `output_dtype`
    is ``"float32"`` for real values or ``"model"`` for the model's own dtype, quantised.

    `priority` is 0 (the lowest) to 255: which of all processes' runs the NPU takes next.
    `timeout_ms` ends runs that take longer. `cached_buffers` lets the processor's cache hold the
    buffers. `disable_dup_network` loads the model once for each worker instead of sharing the
    weights. `library` is what `anynpu.viplite.library.load` takes, `twin` the ONNX file by which
    the soft NPU computes a compiled model.
    """

    threads_per_core: int = option(1, positive, "workers")
    layout: str = option("original", choice("original", "nchw", "nhwc"))
    output_layout: str = option("original", choice("original", "nchw", "nhwc"))
    output_dtype: str = option("float32", choice("float32", "model"))
    device: int | None = option(None, _whole(None), "device_id", "device_index")
    priority: int | None = option(None, _whole(255))
    timeout_ms: int | None = option(None, positive)
    cached_buffers: bool = option(False, boolean)
    disable_dup_network: bool = option(False, boolean)
    library: Any = option(None, anything)
    twin: str | None = option(None, path)

    def __post_init__(self) -> None:
        if self.schedule is not None and self.device is not None:
            raise OptionError(
                f"schedule {list(self.schedule)} and device {self.device} exclude each other: both "
                f"say which devices requests run on"
            )


class VipliteProviderOptions(TypedDict, total=False):
    """The keys that `InferenceSession` takes for a `.nb`, for type checkers.

    `VipliteOptions` says what they mean.
    """

    layout: Literal["original", "nchw", "nhwc"]
    max_queue_size: int
    threads_per_core: int
    workers: int
    submit_timeout_ms: int
    sequential_callbacks: bool
    schedule: int | str | Sequence[int]
    dispatch: Literal["idle", "round_robin"]
    enable_pacing: bool
    output_layout: Literal["original", "nchw", "nhwc"]
    output_dtype: Literal["float32", "model"]
    device: int
    device_id: int
    device_index: int
    priority: int
    timeout_ms: int
    cached_buffers: bool
    disable_dup_network: bool
    library: str | os.PathLike[str]
    twin: str | os.PathLike[str]
