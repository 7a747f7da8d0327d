"""How sessions end, travel and multiply: exits, forks, pickles, many at once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession
from benchmarks.null import RKNN_MODEL

from .. import models
from .conftest import Open

SHAPE = (1, 3, 4, 5)
VALUES = np.random.default_rng(5).integers(0, 100, SHAPE).astype(np.float32)


def run_script(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


PENDING = """
import sys
import numpy as np
from anynpu import InferenceSession

session = InferenceSession({model!r}, provider_options={{"max_queue_size": 200, **{options!r}}})
shape = session.get_inputs()[0].shape
done = []
for number in range(100):
    session.run_async(None, np.full(shape, number, np.float32), lambda r, u, e: print(u), number)
future = session.submit(None, np.zeros(shape, np.float32))
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del session", "session.close()"])
@pytest.mark.parametrize("device", ["null", "soft"])
def test_leaving_python_with_a_hundred_requests(null_device: Path, device: str, end: str) -> None:
    """All are finished, in order, and nothing is printed but by the callbacks."""
    options = {"library": str(null_device), "layout": "nhwc"} if device == "null" else {}
    model = RKNN_MODEL if device == "null" else models.add_one()
    result = run_script(
        PENDING.format(model=model, options=options, end=end), NULL_DEVICE_CORES="500,500,500"
    )
    assert result.stderr == ""
    assert result.returncode == 0
    assert result.stdout.split() == [str(number) for number in range(100)]


def test_leaving_python_by_an_exception(null_device: Path) -> None:
    options = {"library": str(null_device), "layout": "nhwc"}
    text = PENDING.format(model=RKNN_MODEL, options=options, end="raise SystemExit(3)")
    result = run_script(text, NULL_DEVICE_CORES="500,500,500")
    assert (result.returncode, result.stderr) == (3, "")


def test_ctrl_c_while_a_request_runs(null_device: Path) -> None:
    """The signal's exception is raised once C lets go of the arrays; the session goes on."""
    text = f"""
import os, signal, threading
import numpy as np
from anynpu import InferenceSession

session = InferenceSession(
    {RKNN_MODEL!r}, provider_options={{"library": {str(null_device)!r}, "layout": "nhwc"}}
)
values = np.zeros((1, 4, 4, 3), np.float32)
blocking = session.submit(None, values)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    session.run(None, values)
except KeyboardInterrupt:
    print("interrupted")
print(len(session.run(None, values)), len(blocking.result()))
"""
    result = run_script(text, NULL_DEVICE_CORES="500000")
    assert (result.stdout, result.stderr) == ("interrupted\n1 1\n", "")


def test_a_forked_process_is_told(on_cores: Open) -> None:
    session = on_cores(0)
    feed = np.zeros((1, 1, 1, 1), np.float32)
    session.submit(None, feed).result(20)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.run(None, feed)
        except anynpu.StateError as error:
            os.write(writing, str(error).encode())
        session.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert b"before a fork" in os.read(reading, 1000)
    os.close(reading)
    os.close(writing)
    assert len(session.run(None, feed)) == 1


def in_a_fork(results: object, model: bytes) -> None:
    with InferenceSession(model) as session:
        results.put(session.run(None, VALUES)[0])  # type: ignore[attr-defined]


def test_a_forked_process_may_open_its_own() -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with InferenceSession(models.add_one()) as session:
        session.submit(None, VALUES).result(20)
        process = context.Process(target=in_a_fork, args=(results, models.add_one()))
        process.start()
        np.testing.assert_array_equal(results.get(timeout=60), VALUES + 1)
        process.join(20)
    assert process.exitcode == 0


def test_a_session_made_from_a_path_is_pickled_as_such(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(models.add_one())
    with InferenceSession(file, provider_options={"max_queue_size": 5}) as session:
        data = pickle.dumps(session)
    assert len(data) < 1000
    with pickle.loads(data) as copy:
        assert copy.get_provider_options()["RKNPU2ExecutionProvider"]["max_queue_size"] == 5
        np.testing.assert_array_equal(copy.run(None, VALUES)[0], VALUES + 1)


def test_a_session_made_from_bytes_is_pickled_by_their_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InferenceSession(models.add_one()) as session:
        data = pickle.dumps(session)
    assert models.add_one()[:50] not in data
    with pickle.loads(data) as copy:
        np.testing.assert_array_equal(copy.run(None, VALUES)[0], VALUES + 1)
    monkeypatch.setenv("ANYNPU_CACHE", str(tmp_path))
    with pytest.raises(anynpu.ModelError, match="aren't on this machine"):
        pickle.loads(data)


def in_another_process(session: InferenceSession, value: float) -> float:
    return float(session.run(None, np.full(SHAPE, value, np.float32))[0].ravel()[0])


def test_a_session_travels_to_other_processes() -> None:
    with InferenceSession(models.add_one()) as session:
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            assert pool.apply(in_another_process, (session, 5.0)) == 6


def test_twenty_sessions_on_four_threads(on_cores: Open) -> None:
    sessions = [on_cores(0.2, 0.1) for _ in range(20)]
    wrong: list[int] = []

    def use(thread: int) -> None:
        for step in range(40):
            session = sessions[(thread + step) % 20]
            number = thread * 100 + step
            feed = np.full((1, 1, 1, 1), number, np.float32)
            future = session.submit(None, feed)
            for results in (session.run(None, feed), future.result(20)):
                if results[0].ravel()[0] != number:
                    wrong.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_sessions_leave_no_threads_or_descriptors_behind(on_cores: Open) -> None:
    def cycle() -> None:
        with InferenceSession(models.add_one()) as session:
            session.submit(None, VALUES).result(20)
            list(session.map([VALUES] * 5))

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    for _ in range(3):
        cycle()
    before, descriptors = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        cycle()
    assert threads() <= before
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("is_busy", [False, True])
def test_what_a_forked_process_may_do(is_busy: bool) -> None:
    """Nothing from before the fork, which it is told; anew all, unless a call was under way."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.session.forked", *(["busy"] if is_busy else [])],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    lines = dict(line.rsplit(" ", 1) for line in result.stdout.splitlines())
    anew = {name: lines.pop(name) for name in ("anew", "VIPLite anew")}
    assert lines.pop("status 3") == "works", result.stderr
    assert set(lines.values()) == {"StateError"}, lines
    assert len(lines) == 8
    assert set(anew.values()) == {"StateError" if is_busy else "works"}


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_child_that_ends_by_itself(is_closed: bool) -> None:
    text = f"""
import os
import numpy as np
import anynpu
from tests import models
session = anynpu.InferenceSession(models.add_one(), provider_options={{"library": "soft"}})
session.run(None, np.zeros(session.get_inputs()[0].shape, np.float32))
if {is_closed}:
    session.close()
child = os.fork()
if child:
    print(os.waitpid(child, 0)[1])
"""
    # CPython warns of forks beside threads from 3.12 on.
    result = run_script(text, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (result.stdout.strip(), result.stderr) == ("0", "")


def test_daemon_threads_in_calls_at_the_end() -> None:
    """The interpreter's end waits for their calls, or cancels them."""
    text = """
import threading, time
import numpy as np
import anynpu
from tests import models
from tests.soft.viplite.client import slow
model = anynpu.Model(models.repeated_convolution(size=96, filters=32, layers=6), library="soft")
network = anynpu.Model(slow(), library="soft")
def use(model):
    values = np.zeros(model.input_attrs[0].shape, np.float32)
    while True:
        model.run(values)
for each in (model, network):
    threading.Thread(target=use, args=(each,), daemon=True).start()
time.sleep(0.3)
"""
    assert run_script(text).returncode == 0
