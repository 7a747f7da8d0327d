"""What a server may be told: each setting declared once, for the command line and for TOML."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import OptionError
from ..options import unknown

_MEGABYTE = 2**20
_MOST_PORT = 65535


def setting(default: Any, explanation: str, metavar: str = "") -> Any:
    """A field that is an option; booleans are switches."""
    return field(default=default, metadata={"help": explanation, "metavar": metavar})


@dataclass(frozen=True)
class ModelSettings:
    """One model: its name in requests, its file, and how its session is opened.

    `use_weight_from` names another model of the server, whose weights this one shares. `options`
    are the session's provider options.
    """

    name: str
    path: Path
    use_weight_from: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ServeSettings:
    """A server's settings; sizes in bytes, times in seconds. An empty address isn't listened on."""

    http: str = setting("127.0.0.1:8000", "address of the REST form, empty for none", "ADDRESS")
    grpc: str = setting("127.0.0.1:8001", "address of the gRPC form, empty for none", "ADDRESS")
    zmq: str = setting("", "endpoint for Frigate's zmq detectors, tcp://... or ipc://...", "URL")
    zmq_model: str = setting("", "the model that they get (default: the first)", "NAME")
    zmq_head: str = setting("", "what its outputs are (default: the head that they fit)", "HEAD")
    zmq_threshold: float = setting(0.4, "the least score that they hear of", "SCORE")
    token_file: str = setting("", "file with the tokens that requests have to bear", "FILE")
    tls_certificate: str = setting("", "PEM file with the server's certificates", "FILE")
    tls_key: str = setting("", "PEM file with the key", "FILE")
    tls_clients: str = setting("", "PEM file: clients need a certificate of these", "FILE")
    anyone: bool = setting(False, "listen beyond this machine with neither token nor TLS clients")
    admin: bool = setting(False, "let requests list, load and unload the models named here")
    no_shared_memory: bool = setting(False, "refuse tensors in shared memory on this machine")
    max_queue_size: int = setting(32, "requests that may wait for a model's workers", "NUMBER")
    max_requests: int = setting(256, "requests under way in all", "NUMBER")
    max_connections: int = setting(1000, "connections of the REST form", "NUMBER")
    max_body: int = setting(64 * _MEGABYTE, "the largest request", "BYTES")
    request_timeout: float = setting(30.0, "the longest that a request may take", "SECONDS")
    body_timeout: float = setting(10.0, "the longest that a request may take to come", "SECONDS")
    drain_timeout: float = setting(30.0, "the longest that the end waits for requests", "SECONDS")
    reload: float = setting(2.0, "how often changed files are looked for, 0 for never", "SECONDS")
    log: str = setting("none", "a line a request: none, text or json", "FORM")
    models: tuple[ModelSettings, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine reach the server."""
        return all(is_loopback(each) for each in (self.http, self.grpc) if each)


def option_fields() -> list[dataclasses.Field[Any]]:
    """The settings that are options of the command."""
    return [entry for entry in fields(ServeSettings) if "help" in entry.metadata]


# ------------------------------------------------------------------------------------ addresses


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[::1]:port``; port 0 is any that is free."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > _MOST_PORT:
        raise OptionError(f"{address!r} is no address: it takes HOST:PORT, such as 127.0.0.1:8000")
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine alone."""
    host = split_address(address)[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_local_endpoint(endpoint: str) -> bool:
    """Whether a ZeroMQ endpoint is reached from this machine alone."""
    kind, _, rest = endpoint.partition("://")
    return kind in ("ipc", "inproc") or (kind == "tcp" and is_loopback(rest))


# --------------------------------------------------------------------------------- what is wrong


def _check(settings: ServeSettings) -> None:
    for entry in option_fields():
        _check_type(entry.name, getattr(settings, entry.name), entry.default)
    for address in (settings.http, settings.grpc):
        if address:
            split_address(address)
    if not (settings.http or settings.grpc or settings.zmq):
        raise OptionError("the server has no address: give http, grpc or zmq one")
    if settings.log not in ("none", "text", "json"):
        raise OptionError(f"log is {settings.log!r}; it may be none, text or json")
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise OptionError("TLS takes a certificate and its key: give tls_certificate and tls_key")
    if settings.tls_clients and not settings.tls_certificate:
        raise OptionError("tls_clients is for TLS: give tls_certificate and tls_key too")
    _check_reach(settings)
    _check_models(settings)


def _check_type(name: str, value: Any, default: Any) -> None:
    kinds = (int, float) if isinstance(default, float) else (type(default),)
    is_number = isinstance(default, (int, float)) and not isinstance(default, bool)
    if not isinstance(value, kinds) or (is_number and isinstance(value, bool)):
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise OptionError(f"{name} is {value!r}; it takes {kind[type(default)]}")
    least = 0 if name == "reload" else 1e-3 if isinstance(default, float) else 1
    if is_number and not value >= least:
        raise OptionError(f"{name} is {value!r}; it takes a number of at least {least:g}")


def _check_reach(settings: ServeSettings) -> None:
    """Who listens beyond this machine says who may call."""
    is_guarded = settings.anyone or settings.token_file or settings.tls_clients
    if not settings.is_local and not is_guarded:
        raise OptionError(
            f"{settings.http or settings.grpc} is reached from other machines: give a token_file, "
            f"tls_clients, or anyone to let whoever reaches it call"
        )
    if settings.zmq and not is_local_endpoint(settings.zmq) and not settings.anyone:
        raise OptionError(
            f"{settings.zmq} is reached from other machines, and ZeroMQ's detectors bear no token: "
            f"give anyone to let whoever reaches it call"
        )


def _check_models(settings: ServeSettings) -> None:
    names = [model.name for model in settings.models]
    for model in settings.models:
        if names.count(model.name) > 1:
            raise OptionError(f"two models are called {model.name!r}: name one, as NAME=PATH")
        if not model.name or not all(each.isalnum() or each in "._-" for each in model.name):
            raise OptionError(
                f"a model can't be called {model.name!r}: names take letters, digits, '.', '_', '-'"
            )
        if model.use_weight_from and model.use_weight_from not in names:
            raise OptionError(unknown("model", model.use_weight_from, names))
        if model.use_weight_from == model.name:
            raise OptionError(f"model {model.name!r} can't share its own weights")
    if settings.zmq_model and settings.zmq_model not in names:
        raise OptionError(unknown("model", settings.zmq_model, names))


# ------------------------------------------------------------------------------------ the models


def named_model(text: str, options: Mapping[str, Any]) -> ModelSettings:
    """A model as the command line has it: ``PATH``, whose stem is its name, or ``NAME=PATH``."""
    name, equals, path = text.partition("=")
    if not equals or "/" in name:
        name, path = Path(text).stem, text
    return ModelSettings(name, Path(path), options=options)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings of a TOML file: its keys are the options' names, with a table for each model.

    A model's table has its `path`, `use_weight_from`, and its session's options. Paths are from
    the file's own folder. Raises `OptionError` for what isn't TOML and for unknown keys.
    """
    found = _parsed(path)
    known = [entry.name for entry in option_fields()]
    models = found.pop("models", {})
    values: dict[str, Any] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in known:
            raise OptionError(f"{path}: {unknown('key', name, [*known, 'models'])}")
        values[name] = value
    folder = Path(path).parent
    if not isinstance(models, dict):
        raise OptionError(f"{path}: models takes a table for each model: [models.NAME]")
    values["models"] = tuple(_model(path, name, each, folder) for name, each in models.items())
    for name in ("token_file", "tls_certificate", "tls_key", "tls_clients"):
        if isinstance(values.get(name), str) and values[name]:
            values[name] = str(folder / values[name])
    return values


def _parsed(path: str | os.PathLike[str]) -> dict[str, Any]:
    toml: Any = import_module("tomllib" if find_spec("tomllib") else "tomli")  # from Python 3.11
    try:
        with open(path, "rb") as file:
            found: dict[str, Any] = toml.load(file)
    except ValueError as error:
        raise OptionError(f"{path} isn't TOML: {error}") from None
    return found


def _model(path: Any, name: str, table: Any, folder: Path) -> ModelSettings:
    if not isinstance(table, dict) or not isinstance(table.get("path"), str):
        raise OptionError(f"{path}: models.{name} takes a table with the model's path")
    rest = {key: value for key, value in table.items() if key not in ("path", "use_weight_from")}
    shares = table.get("use_weight_from")
    if shares is not None and not isinstance(shares, str):
        raise OptionError(f"{path}: models.{name}: use_weight_from takes a model's name")
    return ModelSettings(name, folder / table["path"], shares, rest)
