"""Which backend a session gets, and its options: what ONNX Runtime's arguments say."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import backends
from ..errors import OptionError, ProviderWarning
from ..options import Options

Provider = str | tuple[str, Mapping[str, Any]]
Providers = Provider | Sequence[Provider] | None
_CPU = "CPUExecutionProvider"
_OTHERS = frozenset(
    f"{name}ExecutionProvider"
    for name in (
        "ACL", "ArmNN", "Azure", "CANN", "CPU", "CUDA", "CoreML", "DNNL", "Dml", "JS", "MIGraphX",
        "Nnapi", "NvTensorRTRTX", "OpenVINO", "QNN", "ROCM", "SNPE", "Tensorrt", "VSINPU", "Vitis",
        "VitisAI", "WebGPU", "WebNN", "XNNPACK",
    )
)  # fmt: skip
"""ONNX Runtime's providers: in a list they come after the NPU's, or before the processor's."""
ProviderOptions = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def choose(
    model: backends.ModelSource, providers: Providers, provider_options: ProviderOptions
) -> tuple[backends.Backend, Options]:
    """The backend by the model's first bytes, which a provider's name may confirm, and its options.

    Raises `OptionError` for unknown names and options, and for a provider that the model isn't for.
    """
    backend = backends.choose(model)
    name, inline = _requested(providers, backend)
    _check(name, backend)
    separate = _of_ours(providers, provider_options, backend)
    return backend, backend.options.parse(_merged(inline, separate))


def available() -> list[str]:
    """The providers that a model's file can have, the official names."""
    return list(dict.fromkeys(each.names[0] for each in backends.on_this_machine().values()))


def _of_ours(
    providers: Providers, provider_options: ProviderOptions, backend: backends.Backend
) -> ProviderOptions:
    """The options of the NPU's provider where there is a dict for each provider of a list."""
    if (
        isinstance(provider_options, Sequence)
        and isinstance(providers, Sequence)
        and not isinstance(providers, str)
        and len(provider_options) == len(providers) > 1
    ):
        pairs = zip(providers, provider_options, strict=True)
        return [options for each, options in pairs if _pair(each)[0] in backend.names]
    return provider_options


def _requested(
    providers: Providers, backend: backends.Backend
) -> tuple[str | None, Mapping[str, Any]]:
    """(name or None for the file's own, the options that came with the name).

    Of several vendors' NPUs, such as `available` lists, it is the one that the model is for.
    """
    if not providers:
        return None, {}
    if isinstance(providers, str) or _is_pair(providers):
        listed = [_pair(providers)]
    else:
        listed = [_pair(provider) for provider in providers]
    ours = [pair for pair in listed if pair[0] not in _OTHERS]
    if {name for name, _ in ours} <= backends.providers().keys():
        ours = [pair for pair in ours if pair[0] in backend.names] or ours
    if len(ours) > 1:
        raise OptionError(
            f"a session has one provider of an NPU; {len(ours)} were given, "
            f"{[name for name, _ in ours]}: pass one, or none to choose it by the file"
        )
    if ours or _CPU in (name for name, _ in listed):
        _say_unused([name for name, _ in listed if name in _OTHERS])
        return ours[0] if ours else (None, {})
    return listed[0]


def _is_pair(provider: Any) -> bool:
    return isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[1], Mapping)


def _pair(provider: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(provider, str):
        return provider, {}
    return str(provider[0]), provider[1] if isinstance(provider[1], Mapping) else {}


def _say_unused(names: Sequence[str]) -> None:
    new = [name for name in names if name not in _said]
    if new:
        _said.update(new)
        warnings.warn(
            f"{', '.join(new)}: not used, the model runs on the provider of the NPU that it is for",
            ProviderWarning,
            stacklevel=5,
        )


_said: set[str] = set()


def _check(name: str | None, backend: backends.Backend) -> None:
    known = backends.providers()
    if name is not None and name not in known:
        raise OptionError(
            f"unknown provider {name!r}; known are {', '.join(known)}: pass one of these, or none "
            f"for the choice by the file"
        )
    if name is not None and known[name] is not backend:
        raise OptionError(
            f"the model, by its first bytes or its address, is for {backend.names[0]}, not for "
            f"{name}: pass the former, or no provider"
        )


def _merged(inline: Mapping[str, Any], separate: ProviderOptions) -> dict[str, Any]:
    if separate is not None and not isinstance(separate, Mapping):
        if len(separate) > 1:
            raise OptionError(
                f"provider_options has {len(separate)} entries for one provider; pass one dict"
            )
        separate = separate[0] if separate else None
    if inline and separate:
        raise OptionError(
            f"options were given both in providers, {dict(inline)}, and in provider_options, "
            f"{dict(separate)}: leave one out"
        )
    return dict(separate or inline)
