"""Who may call: addresses, tokens, certificates, administration; and what settings are refused."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest

from anynpu import OptionError
from anynpu.cli import main
from anynpu.serving.protocol import Stub, messages
from anynpu.serving.settings import ModelSettings, ServeSettings, named_model, read_toml

from .conftest import Serve

TOKEN = "0123456789abcdef0123456789abcdef"


def test_requests_bear_a_token(serve: Serve, add: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# of tests\n{TOKEN}\n")
    running = serve(add, token_file=str(tokens))
    bearing = {"authorization": f"Bearer {TOKEN}"}
    assert running.ask("/v2/models/add", headers=bearing).status == 200
    for wrong in ({}, {"authorization": TOKEN}, {"authorization": f"Bearer {TOKEN}0"}):
        for path in ("/v2/models/add", "/metrics", "/v2"):
            refused = running.ask(path, headers=wrong)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert running.ask("/v2/models/add/infer", {}, headers=wrong).status == 401
    # What probes ask.
    assert running.ask("/v2/health/ready").status == 200
    with grpc.insecure_channel(running.grpc) as channel:
        stub = Stub(channel)
        assert stub.ServerReady(messages.ServerReadyRequest(), timeout=30).ready
        asked = messages.ModelReadyRequest(name="add")
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelReady(asked, timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        assert stub.ModelReady(asked, timeout=30, metadata=metadata).ready


def test_pages_in_browsers_may_not_call(serve: Serve, add: Path) -> None:
    running = serve(add)
    refused = running.ask("/v2/models/add/infer", {}, {"origin": "http://example.org"})
    assert refused.status == 403


def test_models_are_administered_only_where_that_is_allowed(serve: Serve, add: Path) -> None:
    running = serve(add)
    for path in ("index", "models/add/load", "models/add/unload"):
        refused = running.ask(f"/v2/repository/{path}", {})
        assert refused.status == 403
        assert "--admin" in refused.error
    assert running.ask("/v2/models/add/ready").status == 200


def test_shared_memory_is_for_this_machine(serve: Serve, add: Path) -> None:
    running = serve(add, no_shared_memory=True)
    assert running.ask("/v2").json["extensions"] == ["binary_tensor_data"]
    refused = running.ask("/v2/systemsharedmemory/region/r/register", {"key": "a", "byte_size": 1})
    assert refused.status == 403


def certificates(folder: Path) -> None:
    """An authority, and certificates of it for a server and a client."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    new += ["-nodes", "-days", "2"]

    def make(name: str, *more: str) -> None:
        command = [*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run([*command, *more], cwd=folder, check=True, capture_output=True)

    make("authority", "-addext", "keyUsage=critical,keyCertSign")
    signed = ["-CA", "authority.pem", "-CAkey", "authority.key"]
    signed += ["-addext", "basicConstraints=critical,CA:FALSE"]
    make("server", *signed, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    make("client", *signed)


def test_tls_with_certificates_of_clients(serve: Serve, add: Path, tmp_path: Path) -> None:
    certificates(tmp_path)
    read = {path.name: path.read_bytes() for path in tmp_path.glob("*.[pk]e[my]")}
    running = serve(
        add,
        tls_certificate=str(tmp_path / "server.pem"),
        tls_key=str(tmp_path / "server.key"),
        tls_clients=str(tmp_path / "authority.pem"),
    )
    url = f"{running.server.addresses['http']}/v2/health/ready"
    assert url.startswith("https://")
    trusting = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    with pytest.raises(OSError, match=r"(?i)certificate|reset|closed"):
        urllib.request.urlopen(url, context=trusting, timeout=30).read()
    trusting.load_cert_chain(str(tmp_path / "client.pem"), str(tmp_path / "client.key"))
    with urllib.request.urlopen(url, context=trusting, timeout=30) as answer:
        assert answer.status == 200
    authority = read["authority.pem"]
    known = grpc.ssl_channel_credentials(authority, read["client.key"], read["client.pem"])
    with grpc.secure_channel(running.grpc, known) as channel:
        assert Stub(channel).ServerLive(messages.ServerLiveRequest(), timeout=30).live
    unknown = grpc.ssl_channel_credentials(authority)
    with grpc.secure_channel(running.grpc, unknown) as channel, pytest.raises(grpc.RpcError):
        Stub(channel).ServerLive(messages.ServerLiveRequest(), timeout=30)


MODEL = (ModelSettings("m", Path("m.rknn")),)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"http": "0.0.0.0:8000"}, "reached from other machines"),
        ({"grpc": "[::]:8001"}, "reached from other machines"),
        ({"http": "board.local:8000"}, "reached from other machines"),
        ({"zmq": "tcp://*:5555"}, "bear no token"),
        ({"zmq": "tcp://0.0.0.0:5555"}, "bear no token"),
        ({"http": "8000"}, "no address"),
        ({"http": "127.0.0.1:80000"}, "no address"),
        ({"http": "", "grpc": ""}, "has no address"),
        ({"max_body": 0}, "at least 1"),
        ({"max_body": "1M"}, "whole number"),
        ({"request_timeout": 0}, "at least 0.001"),
        ({"request_timeout": float("nan")}, "at least 0.001"),
        ({"admin": 1}, "true or false"),
        ({"log": "xml"}, "none, text or json"),
        ({"tls_certificate": "a"}, "and its key"),
        ({"tls_clients": "a"}, "is for TLS"),
        ({"zmq_model": "n"}, "unknown model 'n'"),
        ({"models": MODEL * 2}, "two models are called 'm'"),
        ({"models": (ModelSettings("a b", Path("x")),)}, "can't be called"),
        ({"models": (ModelSettings("a", Path("x"), "b"),)}, "unknown model 'b'"),
        ({"models": (ModelSettings("a", Path("x"), "a"),)}, "its own weights"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ServeSettings(**{"models": MODEL, **settings})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.4.5", "localhost", "[::1]"])
def test_loopback_wants_nothing(host: str) -> None:
    assert ServeSettings(http=f"{host}:1", models=MODEL).is_local


def test_other_addresses_want_someone_named(tmp_path: Path) -> None:
    for given in ({"anyone": True}, {"token_file": "t"}):
        settings = ServeSettings(http="0.0.0.0:8000", models=MODEL, **given)
        assert not settings.is_local


def test_short_tokens_are_refused(serve: Serve, add: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    for text in ("", "secret\n"):
        tokens.write_text(text)
        with pytest.raises(OptionError, match="at least 16"):
            serve(add, token_file=str(tokens))


def test_toml(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(
        'http = "127.0.0.1:9000"\nmax-queue-size = 5\ntoken_file = "tokens"\n'
        '[models.detector]\npath = "yolo.rknn"\noutput_dtype = "model"\n'
        '[models.other]\npath = "/else/yolo.rknn"\nuse_weight_from = "detector"\npriority = "low"\n'
    )
    settings = ServeSettings(**read_toml(path))
    assert (settings.http, settings.max_queue_size) == ("127.0.0.1:9000", 5)
    assert settings.token_file == str(tmp_path / "tokens")
    detector, other = settings.models
    assert (detector.path, detector.options) == (tmp_path / "yolo.rknn", {"output_dtype": "model"})
    assert (other.path, other.use_weight_from) == (Path("/else/yolo.rknn"), "detector")
    assert other.options == {"priority": "low"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_que_size = 3", "perhaps 'max_queue_size'"),
        ("model = 3", "perhaps 'models'"),
        ("models = 3", "a table for each model"),
        ("[models.a]", "the model's path"),
        ("[models.a]\npath = 'x'\nuse_weight_from = 3", "takes a model's name"),
        ("= 3", "isn't TOML"),
    ],
)
def test_toml_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "server.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=message):
        ServeSettings(**read_toml(path))


def test_unknown_session_options_name_the_nearest(serve: Serve, add: Path) -> None:
    with pytest.raises(OptionError, match="perhaps 'output_dtype'"):
        serve(ModelSettings("add", add, options={"output_dtyp": "model"}))


def test_models_on_the_command_line() -> None:
    assert named_model("a/b.rknn", {}).name == "b"
    assert named_model("c=a/b.rknn", {}).path == Path("a/b.rknn")
    assert named_model("./x=y/b.rknn", {}).path == Path("x=y/b.rknn")


def test_the_command_says_what_is_wrong(
    add: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(add), "--http", "0.0.0.0:0"]) == 2
    assert "reached from other machines" in capsys.readouterr().err
    assert main(["serve"]) == 2
    assert "no model" in capsys.readouterr().err
    missing = [str(tmp_path / "none.rknn"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    assert main(["serve", *missing]) == 1
    assert "none.rknn" in capsys.readouterr().err
