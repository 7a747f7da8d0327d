"""Rockchip's NPUs, through the RKNN C API."""

from __future__ import annotations

from ...errors import OptionError
from ...options import Options
from ..base import Backend, ModelSource, Network
from .contexts import WorkerContexts
from .general import GeneralNetwork
from .network import RknnNetwork
from .options import RknnOptions
from .zero_copy import ZeroCopyNetwork, is_needed

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
        donor = weights.contexts.all[0] if weights is not None else None
        contexts = WorkerContexts(model, options, donor)
        try:
            if options.output_layout == "native" or is_needed(contexts):
                return ZeroCopyNetwork(contexts, options)
            return GeneralNetwork(contexts, options)
        except BaseException:
            contexts.close()
            raise
