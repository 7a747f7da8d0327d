"""Rockchip's NPUs, through the RKNN C API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import OptionError
from ...options import Options
from ...rknn.abi import InitFlag
from ...rknn.context import Context
from ...rknn.custom_ops import CustomOp
from ...rknn.library import load
from ...rknn.model_check import check_rknn
from ...rknn.normalization import read_normalizations
from ..base import Backend, ModelSource, Network, ZeroCopyModel
from .contexts import WorkerContexts
from .general import GeneralNetwork
from .network import RknnNetwork
from .options import RknnOptions
from .zero_copy import RknnZeroCopyModel
from .zero_copy_network import ZeroCopyNetwork

__all__ = ["BACKEND", "RknnBackend"]


class RknnBackend(Backend):
    """Opens `.rknn` files, and ONNX files where the library is the soft NPU."""

    names = ("RKNPU2ExecutionProvider", "RKNNExecutionProvider")
    device_type = "rknpu2"
    magic = b"RKNN"
    options = RknnOptions

    def normalizations(self, model: ModelSource, names: Sequence[str]) -> Sequence[Any]:
        return read_normalizations(model, names)

    def open(self, model: ModelSource, options: Options, weights: Network | None) -> Network:
        assert isinstance(options, RknnOptions)
        if weights is not None and not isinstance(weights, RknnNetwork):
            raise OptionError("use_weight_from names a session of another vendor's NPU")
        donor = weights.contexts.all[0] if weights is not None else None
        contexts = WorkerContexts(model, options, donor)
        try:
            if options.output_layout == "native" or not contexts.has_general_api:
                return ZeroCopyNetwork(contexts, options)
            return GeneralNetwork(contexts, options)
        except BaseException:
            contexts.close()
            raise

    def open_zero_copy(
        self,
        model: ModelSource,
        library: Any,
        *,
        profile: bool,
        twin: str | None,
        custom_ops: Sequence[CustomOp],
    ) -> ZeroCopyModel:
        if twin is not None:
            raise OptionError("twin is for .nb files; a .rknn is computed by what it holds")
        flags = InitFlag.COLLECT_PERF_MASK if profile else InitFlag.PRIOR_HIGH
        runtime = load(library)
        check_rknn(model, runtime)

        def open_context() -> Context:
            return Context(model, library=runtime, flags=flags)

        return RknnZeroCopyModel(open_context(), custom_ops, model, open_context, is_timed=profile)


BACKEND = RknnBackend()
