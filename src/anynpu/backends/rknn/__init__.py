"""Rockchip's NPUs, through the RKNN C API."""

from __future__ import annotations

from ...errors import OptionError
from ...options import Options
from ..base import Backend, ModelSource, Network
from .network import RknnNetwork
from .options import RknnOptions

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
