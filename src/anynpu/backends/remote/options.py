"""The provider options of remote models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from ...errors import OptionError
from ...options import Options, option, path, positive

_RemoteOptionsT = TypeVar("_RemoteOptionsT", bound="RemoteOptions")
_MOST_AHEAD = 64


class Secret(str):
    """A text that isn't shown where options are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def _secret(name: str, value: Any) -> Secret:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise OptionError(f"{name} takes a text of printable ASCII characters")
    return Secret(value)


def _ahead(name: str, value: Any) -> int:
    try:
        number = int(value) if isinstance(value, str) else value.__index__()
    except (ValueError, AttributeError):
        number = -1
    if isinstance(value, bool) or not 0 <= number <= _MOST_AHEAD:
        raise OptionError(f"{name} is {value!r}; it takes a whole number of 0..{_MOST_AHEAD}")
    return int(number)


def _counts(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        value = value.split(",")
    numbers = value if isinstance(value, (list, tuple)) else [value]
    return tuple(positive(name, number) for number in numbers)


@dataclass(frozen=True)
class RemoteOptions(Options):
    """What a session of remote models takes in addition.

    `cores` says how many requests a server runs at once: one number for all servers, or one for
    each; without it the server says so. Each server gets `requests_ahead` more than that, so that
    a core has its next request while an answer is on its way.

    `timeout_ms` is how long one server may take for one request, `connect_timeout_ms` how long it
    may take to say what its model is when the session opens. Where no server answers, requests
    wait `reconnect_timeout_ms` for one, and where all queues are full `submit_timeout_ms`.

    `token` (or what the file `token_file` holds) goes with each call as a bearer token.
    `tls_ca_file` has the authorities by whom a ``grpcs://`` server's certificate is trusted
    (without it those of the system), `tls_certificate_file` and `tls_key_file` are the client's
    own, PEM.
    `tls_server_name` is the name in the server's certificate where the address has another one.
    """

    output_dtype: ClassVar[str] = "model"
    """Outputs are as the server sends them."""

    cores: tuple[int, ...] | None = option(None, _counts)
    requests_ahead: int = option(1, _ahead)
    timeout_ms: int = option(30_000, positive)
    connect_timeout_ms: int = option(5_000, positive)
    reconnect_timeout_ms: int = option(10_000, positive)
    token: Secret | None = option(None, _secret)
    token_file: str | None = option(None, path)
    tls_ca_file: str | None = option(None, path)
    tls_certificate_file: str | None = option(None, path)
    tls_key_file: str | None = option(None, path)
    tls_server_name: str | None = option(None, path)

    def __post_init__(self) -> None:
        if self.schedule is not None or self.dispatch is not None:
            raise OptionError(
                "schedule and dispatch name cores of this machine's NPU; a server's cores are "
                "given out by the server: leave them out, or set them where the model is served"
            )
        if self.threads_per_core != 1:
            raise OptionError(
                "threads_per_core is for this machine's NPU: requests_ahead says how many requests "
                "a server gets beyond its cores"
            )
        if self.token is not None and self.token_file is not None:
            raise OptionError("token and token_file exclude each other: leave one of them out")
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise OptionError("tls_certificate_file and tls_key_file are given together")

    @property
    def wants_tls(self) -> bool:
        """Whether there is an option that only an encrypted connection can honour."""
        files = (self.tls_ca_file, self.tls_certificate_file, self.tls_server_name)
        return any(each is not None for each in files)

    @classmethod
    def parse(cls: type[_RemoteOptionsT], given: Mapping[str, Any]) -> _RemoteOptionsT:
        for key in given:
            if key not in cls.names() and key in _of_devices():
                raise OptionError(
                    f"{key} can't be chosen for a remote model: it is an option of the NPU's own "
                    f"session; set it where the model is served"
                )
        return super().parse(given)


def _of_devices() -> set[str]:
    from ..rknn.options import RknnOptions
    from ..viplite.options import VipliteOptions

    return {*RknnOptions.names(), *VipliteOptions.names()}
