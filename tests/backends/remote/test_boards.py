"""Sessions of real servers: shares, typed errors, boards that are killed and start anew."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu
from anynpu.soft.build import BuildOptions, build_file

from ... import models
from .conftest import Open
from .processes import SHAPE, Board, null_model
from .scripted import free_port

for needed in ("grpc", "starlette", "uvicorn", "prometheus_client", "zmq"):
    pytest.importorskip(needed)

Start = Callable[..., Board]
RIGHT = "a token of more than sixteen characters"
PAGE = Path(__file__).parents[3] / "docs" / "fleet.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return null_model(tmp_path_factory.mktemp("null"))


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a board; all are killed with the test."""
    boards: list[Board] = []

    def begin(*milliseconds: float, arguments: tuple[str, ...] = ()) -> Board:
        model, library = folder / "model.rknn", str(folder / "librknnrt.so")
        boards.append(Board(model, library, *arguments, milliseconds=milliseconds))
        return boards[-1]

    yield begin
    for board in boards:
        board.kill()


def frames(count: int) -> Iterator[NDArray[np.uint8]]:
    """Frames whose results say their numbers."""
    return (np.full(SHAPE, number % 100, np.uint8) for number in range(count))


def number_in(results: list[NDArray[Any]]) -> int:
    return int(results[0].ravel()[0])


def requests(board: Board) -> int:
    """How many requests a board answered."""
    text = urllib.request.urlopen(f"http://{board.http}/metrics").read().decode()
    counts = re.findall(r'^anynpu_requests_total{code="OK".*} (.*)$', text, re.MULTILINE)
    return int(sum(map(float, counts)))


def test_one_is_stopped_then_killed_and_starts_anew(start: Start, connect: Open) -> None:
    boards = start(5, 5, 5), start(5, 5, 5)
    session = connect(*(board.address for board in boards), timeout_ms=1500)
    assert len(session.network.worker_cores) == 8
    found = []
    for results in session.map(frames(1500)):
        found.append(number_in(results))
        if len(found) == 200:
            boards[0].send(signal.SIGSTOP)
        elif len(found) == 700:
            boards[0].send(signal.SIGCONT)
        elif len(found) == 1000:
            boards[0].kill()
    assert found == [number % 100 for number in range(1500)]
    boards[0].start()
    for _ in range(100):
        list(session.map(frames(20)))
        if requests(boards[0]):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("it was not used again")


def test_errors_are_the_servers_own(start: Start, connect: Open, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(RIGHT + "\n")
    board = start(1, arguments=("--token-file", str(tmp_path / "tokens")))
    with pytest.raises(anynpu.ServerAccessError):
        connect(board.address)
    with pytest.raises(anynpu.ServerAccessError):
        connect(board.address, token="not " + RIGHT)
    session = connect(board.address, token=RIGHT)
    assert number_in(session.run(None, next(frames(1)))) == 0
    with pytest.raises(anynpu.UnknownModelError, match="there is no model 'other'"):
        connect(board.address.replace("/m", "/other"), token=RIGHT)


@pytest.mark.nightly
def test_unlike_boards_get_their_shares(start: Start, connect: Open) -> None:
    boards = start(10, 10, 10), start(30, 30), start(25)
    session = connect(*(board.address for board in boards))
    assert [number_in(results) for results in session.map(frames(1200))] == [
        number % 100 for number in range(1200)
    ]
    # The cores would do 885, 197 and 118 of them.
    shares = [requests(board) for board in boards]
    assert sum(shares) == 1200
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] > 30


def test_the_soft_npu_gives_the_same_there_as_here(
    tmp_path: Path, connect: Open, request: pytest.FixtureRequest
) -> None:
    model = tmp_path / "model.rknn"
    build_file(models.convolution(), model, BuildOptions())
    board = Board(model, "soft")
    request.addfinalizer(board.kill)
    here = connect(str(model))
    there = connect(board.address)
    assert [arg.name for arg in there.get_inputs()] == [arg.name for arg in here.get_inputs()]
    assert there.get_outputs()[0].shape == here.get_outputs()[0].shape
    rng = np.random.default_rng(1)
    shape = here.get_inputs()[0].shape
    for picture in (rng.integers(0, 256, shape, np.uint8), rng.random(shape, np.float32)):
        np.testing.assert_array_equal(there.run(None, picture)[0], here.run(None, picture)[0])
    with pytest.raises(anynpu.TensorError, match="takes the shape"):
        there.run(None, np.zeros((1, 2), np.float32))


@pytest.mark.nightly
def test_programs_share_a_board_whose_queue_is_short(start: Start, connect: Open) -> None:
    board = start(5, 5, 5, arguments=("--max-queue-size", "1"))
    found: dict[int, list[int]] = {}

    def work(program: int) -> None:
        session = connect(board.address, requests_ahead=3)
        found[program] = [number_in(results) for results in session.map(frames(300))]

    threads = [threading.Thread(target=work, args=(program,)) for program in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [[number % 100 for number in range(300)]] * 3


# ---------------------------------------------------------------------------------- a balancer


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """HAProxy with the documented configuration, before some boards."""
    program = shutil.which("haproxy")
    if program is None:
        pytest.skip("HAProxy is not installed: apt install haproxy")
    running: list[subprocess.Popen[bytes]] = []

    def begin(*boards: Board) -> str:
        port = free_port()
        text = re.findall(r"```haproxy\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
        head, _, _ = text.replace("0.0.0.0:8001", f"127.0.0.1:{port}").partition("    server ")
        template = re.findall(r"    server board-a .*\n", text)[0]
        for number, board in enumerate(boards):
            head += (
                template.replace("board-a", f"board-{number}")
                .replace("192.168.1.11:8001", board.grpc)
                .replace("port 8000", f"port {board.http.rpartition(':')[2]}")
            )
        (tmp_path / "haproxy.cfg").write_text(head)
        subprocess.run([program, "-c", "-f", tmp_path / "haproxy.cfg"], check=True)
        running.append(subprocess.Popen([program, "-db", "-f", tmp_path / "haproxy.cfg"]))
        return f"grpc://127.0.0.1:{port}/m"

    yield begin
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.nightly
def test_a_balancer_gives_work_to_both_and_loses_none(
    start: Start, connect: Open, balancer: Callable[..., str]
) -> None:
    boards = start(5, 5, 5), start(15, 15, 15)
    address = balancer(*boards)
    session = None
    for _ in range(100):
        try:
            session = connect(address, cores=6)
            break
        except anynpu.ServerUnavailableError:
            time.sleep(0.1)  # HAProxy doesn't listen yet
    assert session is not None
    assert [number_in(results) for results in session.map(frames(600))] == [
        number % 100 for number in range(600)
    ]
    fast, slow = (requests(board) for board in boards)
    assert fast + slow == 600
    assert fast > slow > 60
    # One dies in mid-work.
    found = []
    for results in session.map(frames(600)):
        found.append(number_in(results))
        if len(found) == 100:
            boards[0].kill()
    assert found == [number % 100 for number in range(600)]
