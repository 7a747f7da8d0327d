"""Allwinner's NPUs, through the VIPLite C API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import OptionError
from ...options import Options
from ...viplite.model_file import MAGIC
from ..base import Backend, ModelSource, Network, ZeroCopyModel
from .network import VipliteNetwork
from .options import VipliteOptions
from .zero_copy import VipliteZeroCopyModel

__all__ = ["BACKEND", "VipliteBackend"]


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

    def open_zero_copy(
        self,
        model: ModelSource,
        library: Any,
        *,
        profile: bool,
        twin: str | None,
        custom_ops: Sequence[Any],
    ) -> ZeroCopyModel:
        if custom_ops:
            raise OptionError("VIPLite has no custom operators")
        if profile:
            raise OptionError(
                "VIPLite doesn't time layers, so profile is for other models; run_microseconds "
                "tells what a whole run took"
            )
        return VipliteZeroCopyModel.open(model, library, twin)


BACKEND = VipliteBackend()
