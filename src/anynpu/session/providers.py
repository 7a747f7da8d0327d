"""Which backend a session gets, and its options: what ONNX Runtime's arguments say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import backends
from ..errors import OptionError
from ..options import Options

Provider = str | tuple[str, Mapping[str, Any]]
Providers = Provider | Sequence[Provider] | None
ProviderOptions = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def choose(
    model: backends.ModelSource, providers: Providers, provider_options: ProviderOptions
) -> tuple[backends.Backend, Options]:
    """The backend by the model's first bytes, which a provider's name may confirm, and its options.

    Raises `OptionError` for unknown names and options, and for a provider that the model isn't for.
    """
    name, inline = _requested(providers)
    backend = backends.choose(model)
    _check(name, backend)
    return backend, backend.options.parse(_merged(inline, provider_options))


def _requested(providers: Providers) -> tuple[str | None, Mapping[str, Any]]:
    """(name or None for the file's own, the options that came with the name)."""
    if not providers:
        return None, {}
    if isinstance(providers, str):
        return providers, {}
    if isinstance(providers, tuple) and len(providers) == 2 and isinstance(providers[1], Mapping):
        return str(providers[0]), providers[1]
    if len(providers) > 1:
        raise OptionError(
            f"a session has one provider; {len(providers)} were given, {list(providers)}: pass the "
            f"NPU's alone, or none to choose it by the file"
        )
    first = providers[0]
    if isinstance(first, str):
        return first, {}
    return str(first[0]), first[1] if isinstance(first[1], Mapping) else {}


def _check(name: str | None, backend: backends.Backend) -> None:
    known = backends.providers()
    if name is not None and name not in known:
        raise OptionError(
            f"unknown provider {name!r}; known are {', '.join(known)}: pass one of these, or none "
            f"for the choice by the file"
        )
    if name is not None and known[name] is not backend:
        raise OptionError(
            f"the model, by its first bytes, is for {backend.names[0]}, not for {name}: pass the "
            f"former, or no provider"
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
