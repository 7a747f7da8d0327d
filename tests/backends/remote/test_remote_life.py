"""Processes with remote sessions: their end, signals, forks, and what is not installed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu

from .conftest import Open, Serve
from .scripted import SHAPE, doubled

START = """
import sys, time, numpy as np, anynpu
feed = {"x": np.ones((1, 3, 4, 4), np.float32)}
session = anynpu.InferenceSession(sys.argv[1], provider_options={"timeout_ms": int(sys.argv[2])})
"""


def begin(program: str, address: str, timeout_ms: int = 20_000) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", START + program, address, str(timeout_ms)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """What a program printed, whose end was a good one."""
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    return output


class Gate:
    """A model that computes when it may."""

    def __init__(self) -> None:
        self.came, self.may = threading.Event(), threading.Event()

    def __call__(self, given: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.came.set()
        self.may.wait(60)
        return doubled(given)


def test_what_was_submitted_is_done_at_the_programs_end(serve: Serve) -> None:
    gate = Gate()
    server = serve(gate)
    program = begin(
        "for number in range(5):\n"
        "    session.run_async(None, feed, lambda *a: print(a[1], a[2]), number)\n",
        server.address,
    )
    assert gate.came.wait(60)
    gate.may.set()
    assert end(program).split() == ["0", "1", "2", "3", "4"]


def test_a_program_ends_though_its_server_hangs(serve: Serve) -> None:
    gate = Gate()
    try:
        program = begin("session.submit(None, feed)", serve(gate).address, timeout_ms=300)
        assert end(program) == ""
    finally:
        gate.may.set()


def test_an_interrupt_ends_a_run_at_once(serve: Serve) -> None:
    gate = Gate()
    program = begin(
        "try: session.run(None, feed)\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
        "print(session.run(None, feed)[0].max())\n",
        serve(gate).address,
    )
    assert gate.came.wait(60)
    program.send_signal(signal.SIGINT)
    assert program.stdout is not None
    # The server has not answered yet.
    assert program.stdout.readline() == "interrupted\n"
    gate.may.set()
    assert end(program) == "2.0\n"


def test_a_forked_process_is_told(serve: Serve) -> None:
    program = begin(
        "import os\n"
        "print(session.run(None, feed)[0].max(), flush=True)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: session.run(None, feed)\n"
        "    except anynpu.StateError as error: print('before a fork' in str(error), flush=True)\n"
        "    session.close()\n"
        "    del session\n"
        "else:\n"
        "    print(os.waitpid(child, 0)[1], session.run(None, feed)[0].max())\n",
        serve().address,
    )
    output, _ = program.communicate(timeout=120)
    assert (program.returncode, output) == (0, "2.0\nTrue\n0 2.0\n")


def test_grpcio_is_needed_for_addresses_alone() -> None:
    program = (
        "import sys; sys.modules['grpc'] = None\n"
        "import anynpu, anynpu.backends.remote\n"
        "try: anynpu.InferenceSession('grpc://board/m')\n"
        "except anynpu.LibraryError as error: print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "needs grpcio: pip install 'anynpu[remote]'" in result.stdout


# ------------------------------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and what it signed for a server of 127.0.0.1 and for a client."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=a")
    for name, extension in (("board", "subjectAltName=IP:127.0.0.1,DNS:board"), ("me", "")):
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "extension").write_text(extension)
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-CAcreateserial", "-extfile", "extension", "-out", f"{name}.pem")  # fmt: skip
    return folder


def test_a_servers_certificate_is_looked_at(
    serve: Serve, connect: Open, certificates: Path
) -> None:
    pair = [((certificates / "board.key").read_bytes(), (certificates / "board.pem").read_bytes())]
    server = serve(credentials=grpc.ssl_server_credentials(pair))
    session = connect(server, tls_ca_file=certificates / "ca.pem", token="a secret")
    assert session.run(None, np.ones(SHAPE, np.float32))[0].max() == 2
    assert server.tokens == {"Bearer a secret"}
    with pytest.raises(anynpu.ServerError):
        connect(server, connect_timeout_ms=500)  # the system doesn't trust it
    name = {"tls_server_name": "another", "tls_ca_file": certificates / "ca.pem"}
    with pytest.raises(anynpu.ServerError):
        connect(server, connect_timeout_ms=500, **name)
    connect(server, **name | {"tls_server_name": "board"})


def test_a_clients_certificate_is_shown(serve: Serve, connect: Open, certificates: Path) -> None:
    def read(name: str) -> bytes:
        return (certificates / name).read_bytes()

    pair = [(read("board.key"), read("board.pem"))]
    server = serve(
        credentials=grpc.ssl_server_credentials(pair, read("ca.pem"), require_client_auth=True)
    )
    authority = {"tls_ca_file": certificates / "ca.pem", "connect_timeout_ms": 500}
    mine = {
        "tls_certificate_file": certificates / "me.pem",
        "tls_key_file": certificates / "me.key",
    }
    session = connect(server, **authority, **mine)
    assert session.run(None, np.ones(SHAPE, np.float32))[0].max() == 2
    with pytest.raises(anynpu.ServerError):
        connect(server, **authority)
    with pytest.raises(FileNotFoundError):
        connect(server, **authority | {"tls_ca_file": "/nowhere/ca.pem"})
