"""Where remote models are: ``grpc://host:port/model`` and lists of such addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from ..errors import ModelError
from .base import ModelSource

PLAIN, ENCRYPTED = "grpc", "grpcs"
_PORT = 8001
_FORM = "grpc://HOST:PORT/MODEL, or .../MODEL/VERSION"


@dataclass(frozen=True)
class Address:
    """One model on one server; `version` is empty for the server's own choice."""

    host: str
    port: int
    model: str
    version: str
    is_encrypted: bool

    @property
    def target(self) -> str:
        """What a channel is opened to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        scheme = ENCRYPTED if self.is_encrypted else PLAIN
        version = f"/{self.version}" if self.version else ""
        return f"{scheme}://{self.target}/{self.model}{version}"


def is_remote(model: object) -> bool:
    """Whether a model is an address, or addresses, and not a file."""
    if isinstance(model, str):
        return model.lstrip().startswith((f"{PLAIN}://", f"{ENCRYPTED}://"))
    return isinstance(model, (list, tuple)) and bool(model) and all(map(is_remote, model))


def as_source(model: ModelSource | Sequence[str]) -> ModelSource:
    """A list of addresses as one text, in which commas part them; anything else as it is."""
    if isinstance(model, (list, tuple)) and is_remote(model):
        return ",".join(model)
    return cast("ModelSource", model)


def parse(source: ModelSource) -> list[Address]:
    """The addresses of a text, each once; raises `ModelError` for what isn't one."""
    texts = (part.strip() for part in str(source).split(","))
    return _without_twins(_parsed(text) for text in texts if text)


def _without_twins(addresses: Iterable[Address]) -> list[Address]:
    found: list[Address] = []
    for address in addresses:
        if address in found:
            raise ModelError(f"{address} is there twice: name each server once")
        found.append(address)
    return found


def _parsed(text: str) -> Address:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ModelError(f"{text!r} is no address of a model ({error}): {_FORM}") from None
    if parts.scheme not in (PLAIN, ENCRYPTED) or not host:
        raise ModelError(f"{text!r} is no address of a model: {_FORM}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ModelError(
            f"the address of {host} has more than a host, a port and a model: {_FORM}; tokens and "
            f"certificates are provider options"
        )
    name, _, version = parts.path.strip("/").partition("/")
    if not name or "/" in version:
        raise ModelError(f"{text!r} doesn't name a model: {_FORM}")
    encrypted = parts.scheme == ENCRYPTED
    return Address(host, port or _PORT, unquote(name), unquote(version), encrypted)
