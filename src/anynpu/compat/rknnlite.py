"""The interface of rknn-toolkit-lite2 (2.5), for its scripts.

    from anynpu.compat.rknnlite import RKNNLite

Methods return the same codes: 0, or -1 and None for failures, whose reason is on the standard error
stream. It runs wherever anynpu does, without a device tree, a certain folder or a container's
privileges.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from ..errors import AnynpuError
from ..file_kinds import check_model
from ..rknn.model_file import read_frame
from ..soc import SOCS
from .rknnlite_log import RKNNLog
from .rknnlite_runtime import RKNNRuntime

__all__ = ["RKNNLite"]

_T = TypeVar("_T")
_OK, _FAILED = 0, -1


def _answers(failure: Any) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """A method whose exceptions are written to the standard error stream, and give `failure`."""

    def decorate(method: Callable[..., _T]) -> Callable[..., _T]:
        @wraps(method)
        def call(self: RKNNLite, *arguments: Any, **named: Any) -> Any:
            try:
                return method(self, *arguments, **named)
            except (AnynpuError, OSError, ValueError, TypeError) as error:
                self._report(method.__name__, error)
                return failure

        return call

    return decorate


class RKNNLite:
    """One model. One thread at a time.

    `verbose` adds tracebacks to what failures write, `verbose_file` is where they are written to
    as well. `rknn_log` writes them: its logger's level says how much. `rknn_runtime` is what runs
    the model between `init_runtime` and `release`, else None.
    """

    NPU_CORE_AUTO = 0
    NPU_CORE_0 = 1
    NPU_CORE_1 = 2
    NPU_CORE_2 = 4
    NPU_CORE_0_1 = 3
    NPU_CORE_0_1_2 = 7
    NPU_CORE_ALL = 0xFFFF

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.verbose = verbose
        self.verbose_file = verbose_file
        self.rknn_data: bytes | None = None
        self.rknn_log = RKNNLog(verbose_file)
        self.rknn_runtime: RKNNRuntime | None = None

    @_answers(_FAILED)
    def load_rknn(self, path: str | os.PathLike[str], key_path: str | None = None) -> int:
        """Read a model file; 0, or -1. Encrypted models (`key_path`) can't be read here."""
        if key_path is not None:
            raise ValueError("models that need a key aren't supported")
        check_model(path)
        self.rknn_data = Path(path).read_bytes()
        return _OK

    @_answers(_FAILED)
    def init_runtime(
        self,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = NPU_CORE_AUTO,
    ) -> int:
        """Load the model into the runtime; 0, or -1.

        `target` and `device_id` are for boards at a cable, which neither package supports;
        `async_mode` does nothing in either.
        """
        if self.rknn_data is None:
            raise ValueError("load_rknn comes first")
        if target is not None or device_id is not None:
            raise ValueError("the model runs on this machine: leave target and device_id out")
        self.release(keeps_model=True)
        self.rknn_runtime = RKNNRuntime(self.rknn_data, core_mask)
        return _OK

    @_answers(None)
    def inference(
        self,
        inputs: Sequence[Any],
        data_type: Any = None,
        data_format: str | Sequence[str] | None = None,
        inputs_pass_through: Sequence[int] | None = None,
        get_frame_id: bool = False,
        reuse_outputs: bool = False,
    ) -> list[NDArray[Any]] | None:
        """The outputs as float32 arrays, new at each call; None for a failure.

        That an array hasn't the shape of its input, or is of another order of axes, is one.
        Images are NHWC, with `data_format` ``"nchw"`` (or a list with one for each input) NCHW. A
        model of several shapes takes any of them. `inputs_pass_through` has 1 for inputs that go
        to the device as they are. `data_type`, `get_frame_id` and `reuse_outputs` do nothing.
        """
        runtime = self._runtime()
        runtime.set_inputs(inputs, data_type, data_format, inputs_pass_through)
        runtime.run(get_frame_id)
        return runtime.get_outputs(get_frame_id)

    @_answers(None)
    def get_sdk_version(self) -> str | None:
        """The versions of the runtime and the driver, in the original's words."""
        api, driver = self._runtime().sdk_version()
        rule = "=" * 46
        return f"\n{rule}\nRKNN VERSION:\n  API: {api}\n  DRV: rknn_driver: {driver}\n{rule}\n"

    @_answers(None)
    def list_support_target_platform(
        self, rknn_model: str | os.PathLike[str] | None = None
    ) -> dict[str, list[str]] | None:
        """The chips that a model file, or the one that was loaded, is for."""
        source = rknn_model if rknn_model is not None else self.rknn_data
        if source is None:
            raise ValueError("name a model, or load one first")
        target = read_frame(source).target
        return {
            "support_target_platform": [target] if target in SOCS else [],
            "filled_target_platform": [target],
        }

    def list_devices(self) -> tuple[list[str], list[str]]:
        """The boards at a cable, by adb and by ntb: none, for models run on this machine."""
        return [], []

    def release(self, *, keeps_model: bool = False) -> None:
        """Free the runtime; twice does nothing."""
        if self.rknn_runtime is not None:
            self.rknn_runtime.release()
        self.rknn_runtime = None
        if not keeps_model:
            self.rknn_data = None

    def _runtime(self) -> RKNNRuntime:
        if self.rknn_runtime is None:
            raise ValueError("init_runtime comes first")
        return self.rknn_runtime

    def _report(self, method: str, error: Exception) -> None:
        text = f"RKNNLite.{method}: {error}"
        if self.verbose:
            text += "\n" + "".join(traceback.format_exception(error)).rstrip()
        self.rknn_log.e(text)
