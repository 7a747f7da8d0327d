"""A connection to one server: its channel, its certificates and its token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import LibraryError, OptionError
from ..addresses import ENCRYPTED, Address
from .options import RemoteOptions

_SETTINGS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The fleet repeats, and knows where.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Sessions that ask one server don't wait for each other's connection.
    ("grpc.use_local_subchannel_pool", 1),
)


def grpc_module() -> Any:
    """The package grpcio; raises `LibraryError` where it isn't installed."""
    try:
        import grpc
    except ImportError as error:
        raise LibraryError(
            f"a model at a grpc:// address needs grpcio: pip install 'anynpu[remote]' ({error})"
        ) from error
    return grpc


def open_channel(address: Address, options: RemoteOptions) -> Any:
    """A channel, which connects when it is first used.

    Raises `OptionError` for certificates where the address isn't ``grpcs://``, OSError for files
    that can't be read.
    """
    grpc = grpc_module()
    if not address.is_encrypted:
        if options.wants_tls:
            raise OptionError(
                f"there are certificates for {address}, which isn't encrypted: begin the address "
                f"with {ENCRYPTED}://, or leave the tls_ options out"
            )
        return grpc.insecure_channel(address.target, options=_SETTINGS)
    credentials = grpc.ssl_channel_credentials(
        _content(options.tls_ca_file),
        _content(options.tls_key_file),
        _content(options.tls_certificate_file),
    )
    settings: list[tuple[str, Any]] = list(_SETTINGS)
    if options.tls_server_name is not None:
        settings.append(("grpc.ssl_target_name_override", options.tls_server_name))
    return grpc.secure_channel(address.target, credentials, options=settings)


def metadata_of(options: RemoteOptions) -> Sequence[tuple[str, str]]:
    """What goes with each call: the token, if there is one."""
    token: str | None = options.token
    if options.token_file is not None:
        token = Path(options.token_file).read_text(encoding="ascii").strip()
    return (("authorization", f"Bearer {token}"),) if token else ()


def _content(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
