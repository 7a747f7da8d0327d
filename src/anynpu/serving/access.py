"""Who may call: tokens, and TLS for both forms."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

from ..errors import OptionError
from .answers import Answer, Refusal
from .settings import ServeSettings

_LEAST_TOKEN = 16


class Access:
    """The tokens that requests may bear; without any, everyone who gets here may call."""

    def __init__(self, settings: ServeSettings) -> None:
        self._tokens = _read(settings.token_file) if settings.token_file else []
        self.has_admin = settings.admin

    def check(self, authorization: str | None) -> None:
        """`Refusal` unless a header ``Bearer TOKEN`` has one of the tokens."""
        if not self._tokens:
            return
        kind, _, token = (authorization or "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        # All are compared, each in the same time: a token can't be guessed by parts.
        matches = [hmac.compare_digest(given, each) for each in self._tokens]
        if kind.lower() != "bearer" or not any(matches):
            raise Refusal(Answer.UNKNOWN_CALLER, "requests take the header Authorization: Bearer")

    def check_origin(self, origin: str | None) -> None:
        """`Refusal` for a page in a browser that reaches a server without tokens."""
        if origin is not None and not self._tokens:
            raise Refusal(
                Answer.FORBIDDEN, "pages in browsers may call only where requests bear tokens"
            )

    def check_admin(self) -> None:
        """`Refusal` unless requests may load and unload models."""
        if not self.has_admin:
            raise Refusal(
                Answer.FORBIDDEN, "requests may list, load and unload models with --admin only"
            )


def _read(path: str) -> list[bytes]:
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens or any(len(token) < _LEAST_TOKEN for token in tokens):
        raise OptionError(
            f"{path} takes a token a line, each of at least {_LEAST_TOKEN} characters, such as of "
            f"openssl rand -hex 32"
        )
    return [token.encode() for token in tokens]


def grpc_credentials(settings: ServeSettings) -> Any:
    """The server credentials of gRPC, None without TLS."""
    if not settings.tls_certificate:
        return None
    import grpc

    key, certificate = (
        Path(path).read_bytes() for path in (settings.tls_key, settings.tls_certificate)
    )
    clients = Path(settings.tls_clients).read_bytes() if settings.tls_clients else None
    return grpc.ssl_server_credentials(
        [(key, certificate)], clients, require_client_auth=clients is not None
    )


def http_tls(settings: ServeSettings) -> dict[str, Any]:
    """What uvicorn is told for TLS."""
    if not settings.tls_certificate:
        return {}
    import ssl

    found: dict[str, Any] = {
        "ssl_certfile": settings.tls_certificate,
        "ssl_keyfile": settings.tls_key,
    }
    if settings.tls_clients:
        found |= {"ssl_ca_certs": settings.tls_clients, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return found
