"""The provider options of Rockchip's NPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ...errors import OptionError
from ...options import Converter, Options, anything, boolean, choice, option, paths
from ...rknn.abi import CoreMask, InitFlag
from ...rknn.custom_ops import CustomOp

if TYPE_CHECKING:
    from typing_extensions import Unpack

LayoutLike = Literal["nchw", "original", "nchw_software", "original_software", "nhwc", "any"]
TpModeLike = Literal["auto", "all", "0", "1", "2", "0,1", "0,1,2"]
ScheduleLike = int | str | Sequence[int]
PathLike = str | os.PathLike[str]

_ALIASES = {"nchw": "original", "nchw_software": "original_software"}
"""Names that mean the same."""

MASKS = {
    "auto": CoreMask.AUTO,
    "all": CoreMask.ALL,
    "0": CoreMask.CORE_0,
    "1": CoreMask.CORE_1,
    "2": CoreMask.CORE_2,
    "0,1": CoreMask.CORE_0_1,
    "0,1,2": CoreMask.CORE_0_1_2,
}
PRIORITIES = {
    "high": InitFlag.PRIOR_HIGH,
    "medium": InitFlag.PRIOR_MEDIUM,
    "low": InitFlag.PRIOR_LOW,
}


def _layout(*known: str) -> Converter:
    def convert(name: str, value: Any) -> str:
        word: str = choice(*known)(name, value)
        return _ALIASES.get(word, word)

    return convert


def _tp_mode(name: str, value: Any) -> Any:
    return choice(*MASKS)(name, str(value).replace(" ", ""))


def _custom_ops(name: str, value: Any) -> tuple[CustomOp, ...]:
    given = [value] if isinstance(value, CustomOp) else value
    if not isinstance(given, Sequence) or not all(isinstance(op, CustomOp) for op in given):
        raise OptionError(f"{name} is {value!r}; it takes a CustomOp or a sequence of them")
    return tuple(given)


_INPUT_LAYOUTS = ("original", "nchw", "original_software", "nchw_software", "nhwc", "any")


@dataclass(frozen=True)
class RknnOptions(Options):
    """What a session on a Rockchip NPU takes in addition.

    `layout` is how images are given: ``"original"`` (``"nchw"``) as in the model's source, which
    the runtime transposes, ``"original_software"`` (``"nchw_software"``) the same, transposed
    here, ``"nhwc"``, or ``"any"``, which takes every tensor as the runtime describes it.

    `tp_mode` names the cores that work together on a request; ``"auto"``, where neither it nor a
    schedule is given, lets the runtime choose one for each, with as many workers as cores.

    `priority` is ``"high"``, as the runtime has it by default, ``"medium"`` or ``"low"``: whose of
    several contexts' runs that wait the NPU takes next. A run that has begun isn't interrupted.

    `disable_dup_context` loads the model once for each worker instead of sharing the weights.
    `custom_ops` are custom operators, `custom_op_paths` plugins with such, and
    `custom_op_default_path` loads those of the vendor's folder too. `library` is what
    `anynpu.rknn.library.load` takes.

    `output_dtype` is ``"float32"`` for real values or ``"model"`` for the model's own dtype,
    quantised. `output_layout` is ``"original"`` (``"nchw"``) for images as in the model's source,
    ``"nhwc"``, or ``"native"`` for channel blocks as the NPU writes them, which no runtime
    converts. `zero_copy_layout` is that of `io_binding`'s buffers: ``"nhwc"`` or ``"native"``.
    """

    layout: str = option("original", _layout(*_INPUT_LAYOUTS))
    tp_mode: str | None = option(None, _tp_mode)
    disable_dup_context: bool = option(False, boolean)
    custom_op_paths: tuple[str, ...] = option((), paths, "custom_op_path")
    custom_op_default_path: bool = option(False, boolean, "load_custom_ops_from_default_path")
    custom_ops: tuple[CustomOp, ...] = option((), _custom_ops)
    library: Any = option(None, anything)
    output_dtype: str = option("float32", choice("float32", "model"))
    output_layout: str = option("original", _layout("original", "nchw", "nhwc", "native"))
    zero_copy_layout: str = option("nhwc", choice("nhwc", "native"))
    priority: str = option("high", choice(*PRIORITIES))

    def __post_init__(self) -> None:
        if self.schedule is not None and self.tp_mode is not None:
            raise OptionError(
                f"schedule {list(self.schedule)} and tp_mode {self.tp_mode!r} exclude each other: "
                f"a request runs on one core, or on several together; leave one of them out"
            )

    @property
    def mask(self) -> CoreMask:
        """The core mask of every worker, where there is no schedule."""
        return MASKS[self.tp_mode or "auto"]

    @property
    def priority_flag(self) -> InitFlag:
        """What rknn_init is told of the priority."""
        return PRIORITIES[self.priority]

    @property
    def wants_custom_ops(self) -> bool:
        """Whether there are custom operators, or may be."""
        return bool(self.custom_ops or self.custom_op_paths) or self.custom_op_default_path


class FurtherOptions(TypedDict, total=False):
    """The options beyond EZ RKNN Async's, and other names of its; `RknnOptions` explains them."""

    custom_op_path: PathLike | Sequence[PathLike]
    load_custom_ops_from_default_path: bool
    custom_ops: CustomOp | Sequence[CustomOp]
    dispatch: Literal["idle", "round_robin"]
    library: PathLike
    output_dtype: Literal["float32", "model"]
    output_layout: Literal["original", "nchw", "nhwc", "native"]
    zero_copy_layout: Literal["nhwc", "native"]
    priority: Literal["high", "medium", "low"]


class RknnProviderOptions(FurtherOptions, total=False):
    """The keys that `InferenceSession` takes as provider options, for type checkers.

    `RknnOptions` says what they mean.
    """

    layout: LayoutLike
    max_queue_size: int
    threads_per_core: int
    submit_timeout_ms: int
    sequential_callbacks: bool
    schedule: ScheduleLike
    tp_mode: TpModeLike
    enable_pacing: bool
    disable_dup_context: bool
    custom_op_paths: PathLike | Sequence[PathLike]
    custom_op_default_path: bool


def make_provider_options(
    *,
    layout: LayoutLike = "original",
    max_queue_size: int = 3,
    threads_per_core: int = 1,
    submit_timeout_ms: int = 10_000,
    sequential_callbacks: bool = True,
    schedule: ScheduleLike | None = None,
    tp_mode: TpModeLike | None = None,
    enable_pacing: bool = False,
    disable_dup_context: bool = False,
    custom_op_paths: PathLike | Sequence[PathLike] | None = None,
    custom_op_default_path: bool = False,
    **more: Unpack[FurtherOptions],
) -> RknnProviderOptions:
    """Provider options, checked: `RknnOptions` says what they mean, `FurtherOptions` names more.

    Raises `OptionError`, a ValueError, for unknown names, wrong values and contradictions.
    """
    given = {name: value for name, value in locals().items() if name != "more"} | {**more}
    options = {name: value for name, value in given.items() if value is not None}
    RknnOptions.parse(options)
    return options  # type: ignore[return-value]
