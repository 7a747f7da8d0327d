"""Allwinner's NPUs, through the VIPLite C API."""

from __future__ import annotations

from ...errors import OptionError
from ...options import Options
from ...viplite.model_file import MAGIC
from ..base import Backend, ModelSource, Network
from .network import VipliteNetwork
from .options import VipliteOptions

__all__ = ["VipliteBackend"]


class VipliteBackend(Backend):
    """Opens `.nb` files."""

    names = ("VIPLiteExecutionProvider",)
    device_type = "viplite"
    magic = MAGIC
    options = VipliteOptions

    def open(self, model: ModelSource, options: Options, weights: Network | None) -> Network:
        assert isinstance(options, VipliteOptions)
        if weights is not None and not isinstance(weights, VipliteNetwork):
            raise OptionError("use_weight_from names a session of another vendor's NPU")
        return VipliteNetwork(model, options, weights)
