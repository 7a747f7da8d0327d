"""Models on other machines, through the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import OptionError
from ...options import Options
from ..addresses import parse
from ..base import Backend, ModelSource, Network, ZeroCopyModel
from .network import RemoteNetwork
from .options import RemoteOptions

__all__ = ["BACKEND", "RemoteBackend"]


class RemoteBackend(Backend):
    """Opens ``grpc://host:port/model``, and several such addresses that commas part."""

    names = ("RemoteExecutionProvider",)
    device_type = "remote"
    magic = b"grpc"
    options = RemoteOptions

    def open(self, model: ModelSource, options: Options, weights: Network | None) -> Network:
        assert isinstance(options, RemoteOptions)
        if weights is not None:
            raise OptionError(
                "use_weight_from is for models of one machine; a server shares weights between its "
                "own models"
            )
        return RemoteNetwork(parse(model), options)

    def open_zero_copy(
        self,
        model: ModelSource,
        library: Any,
        *,
        profile: bool,
        twin: str | None,
        custom_ops: Sequence[Any],
    ) -> ZeroCopyModel:
        raise OptionError(
            f"Model works in memory of this machine's NPU, and {model!r} is on another machine: "
            f"use InferenceSession"
        )


BACKEND = RemoteBackend()
