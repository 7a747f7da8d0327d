"""The interface of the package ztu_somemodelruntime_ez_rknn_async (0.11), for its scripts.

    import anynpu.compat.ez_rknn_async as ez

    session = ez.InferenceSession("model.rknn", provider_options={"schedule": [0, 1, 2]})

What it does better shows here too: `anynpu.InferenceSession` says how. Errors are anynpu's, which
are RuntimeErrors or ValueErrors.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from .. import InferenceSession as _InferenceSession
from .. import ModelMetadata, NodeArg, OrtValue, SessionIOBinding, __version__
from ..backends import ModelSource
from ..backends.rknn.options import RknnProviderOptions, make_provider_options
from ..errors import OptionError
from ..session.node import type_name
from ..tensor import TensorInfo

__all__ = [
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RknnProviderOptions",
    "Rknpu2ProviderOptions",
    "SessionIOBinding",
    "__version__",
    "make_provider_options",
    "make_rknpu2_provider_options",
    "make_rknpu3_provider_options",
]

IOBinding = SessionIOBinding
Rknpu2ProviderOptions = RknnProviderOptions
make_rknpu2_provider_options = make_provider_options


def make_rknpu3_provider_options(**options: Any) -> Any:
    """Options for another generation of NPUs, which anynpu can't run: raises `OptionError`."""
    raise OptionError("RKNPU3 is another NPU, which anynpu can't run")


def _natively_typed(arg: NodeArg) -> NodeArg:
    """As that package says the type: of the device's own dtype."""
    return replace(arg, type=type_name(arg.model_dtype))


def _native(info: TensorInfo) -> NodeArg:
    return NodeArg.from_tensor(info, info.dtype, [info.shape])


class InferenceSession(_InferenceSession):
    """`anynpu.InferenceSession` with that package's attributes and habits."""

    def __init__(
        self,
        path_or_bytes: ModelSource,
        sess_options: object = None,
        providers: Any = None,
        provider_options: Any = None,
        **kwargs: Any,
    ) -> None:
        """`provider_options` may be a sequence whose first item counts; unknown names are ignored,
        with a warning.
        """
        weights = kwargs.pop("use_weight_from", None)
        if kwargs:
            warnings.warn(f"ignored: {', '.join(kwargs)}", UserWarning, stacklevel=2)
        if isinstance(provider_options, (list, tuple)):
            provider_options = provider_options[0] if provider_options else None
        super().__init__(
            path_or_bytes, sess_options, providers, provider_options, use_weight_from=weights
        )

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in the model's order; `type` is what the device holds."""
        return [_natively_typed(arg) for arg in super().get_inputs()]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in the model's order; `type` is the device's, `run` gives float32."""
        return [_natively_typed(arg) for arg in super().get_outputs()]

    def get_native_inputs(self) -> list[NodeArg]:
        """The inputs as a binding's memory has them: by the option ``zero_copy_layout``."""
        return [_native(info) for info in self.network.bound_inputs]

    def get_native_outputs(self) -> list[NodeArg]:
        """The outputs as a binding's memory has them: by the option ``zero_copy_layout``."""
        return [_native(info) for info in self.network.bound_outputs]

    @property
    def input_names(self) -> list[str]:
        """The inputs' names in the model's order."""
        return [arg.name for arg in self.get_inputs()]

    @property
    def output_names(self) -> list[str]:
        """The outputs' names in the model's order."""
        return [arg.name for arg in self.get_outputs()]
