"""Rockchip's NPUs, through the RKNN C API."""

from __future__ import annotations

from typing import Any

from ...errors import OptionError
from ...options import Options
from ...rknn.abi import InitFlag
from ...rknn.context import Context
from ..base import Backend, ModelSource, Network, ZeroCopyModel
from .network import RknnNetwork
from .options import RknnOptions
from .zero_copy import RknnZeroCopyModel

__all__ = ["RknnBackend"]


class RknnBackend(Backend):
    """Opens `.rknn` files, and ONNX files where the library is the soft NPU."""

    names = ("RKNPU2ExecutionProvider", "RKNNExecutionProvider")
    device_type = "rknpu2"
    magic = b"RKNN"
    options = RknnOptions

    def open(self, model: ModelSource, options: Options, weights: Network | None) -> Network:
        assert isinstance(options, RknnOptions)
        if weights is not None and not isinstance(weights, RknnNetwork):
            raise OptionError("use_weight_from names a session of another vendor's NPU")
        return RknnNetwork(model, options, weights)

    def open_zero_copy(
        self, model: ModelSource, library: Any, *, profile: bool, twin: str | None
    ) -> ZeroCopyModel:
        if twin is not None:
            raise OptionError("twin is for .nb files; a .rknn is computed by what it holds")
        flags = InitFlag.COLLECT_PERF_MASK if profile else InitFlag.PRIOR_HIGH
        return RknnZeroCopyModel(Context(model, library=library, flags=flags))
