"""Many boards in a Ray cluster: every raylet here is one, with the null device for its NPU."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

import anynpu
import anynpu.ray
from benchmarks import null

ray = pytest.importorskip("ray", reason="Ray is not installed: anynpu[ray]")
pytest.importorskip("pandas", reason="Ray Data is not installed: anynpu[ray]")

pytestmark = [
    pytest.mark.nightly,
    # Ray's own files and sockets are closed when its processes end.
    pytest.mark.filterwarnings("default"),
]

SHAPE = (1, 3, 8, 8)
Cluster = Any
Frames = dict[str, NDArray[np.uint8]]


def frames(count: int) -> Iterator[Frames]:
    """Frames whose results say their numbers."""
    for number in range(count):
        yield {"x": np.full(SHAPE, number % 100, np.uint8)}


def numbers(results: Iterator[list[NDArray[Any]]]) -> list[int]:
    return [int(arrays[0].ravel()[0]) for arrays in results]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the null device and a model for it."""
    folder = tmp_path_factory.mktemp("null")
    null.build("librknnrt.so", folder)
    (folder / "model.rknn").write_bytes(null.RKNN_MODEL)
    return folder


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster whose head has no NPU, and which this process is connected to."""
    from ray.cluster_utils import Cluster as RayCluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("NULL_DEVICE_INPUT", "1,8,8,3")
    monkeypatch.setenv("NULL_DEVICE_OUTPUT", "1,3,4,4")
    head = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    made = RayCluster(initialize_head=True, head_node_args=head)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def add_board(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *milliseconds: int) -> Any:
    """A node of so many cores, whose runs take these times."""
    monkeypatch.setenv("NULL_DEVICE_CORES", ",".join(str(1000 * each) for each in milliseconds))
    return cluster.add_node(
        num_cpus=1,
        resources={"npu_core": len(milliseconds)},
        object_store_memory=100_000_000,
    )


Open = Callable[..., anynpu.ray.Boards]


@pytest.fixture
def boards(cluster: Cluster, device: Path) -> Iterator[Open]:
    opened = []

    def open_boards(**named: Any) -> anynpu.ray.Boards:
        options = {"library": str(device / "librknnrt.so")}
        opened.append(anynpu.ray.Boards(device / "model.rknn", provider_options=options, **named))
        return opened[-1]

    yield open_boards
    for each in opened:
        each.close()


def test_frames_go_to_all_boards(
    cluster: Cluster, boards: Open, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_board(cluster, monkeypatch, 10, 10, 10)
    add_board(cluster, monkeypatch, 10)
    opened = boards()
    wanted = [number % 100 for number in range(700)]
    assert numbers(opened.map(frames(700))) == wanted
    assert Counter(numbers(opened.map(frames(700), ordered=False, stack=8))) == Counter(wanted)
    assert numbers(opened.map((f["x"] for f in frames(30)), output_names=["y"])) == wanted[:30]
    assert sorted(place.cores for place in opened._places) == [1, 3]
    # What is read ahead is bounded, and a dropped iterator leaves the boards usable.
    read = 0

    def counted() -> Iterator[Frames]:
        nonlocal read
        for frame in frames(10_000):
            read += 1
            yield frame

    results = opened.map(counted(), stack=8)
    for _ in range(20):
        next(results)
    assert read <= 20 + 8 * 10
    del results
    assert numbers(opened.map(frames(20))) == wanted[:20]
    # What is wrong with a frame is said as a session says it.
    with pytest.raises(anynpu.TensorError, match="'x' takes the shape"):
        list(opened.map([np.zeros((1, 3, 8, 9), np.uint8)]))
    opened.close()
    with pytest.raises(anynpu.ModelError, match="RKNN_ERR_MODEL_INVALID"):
        list(anynpu.ray.map(b"nonsense", frames(3)))
    options = {"library": str(device / "librknnrt.so")}
    model = device / "model.rknn"
    found = anynpu.ray.map(model, frames(40), provider_options=options, progress=True)
    assert numbers(found) == wanted[:40]


def test_no_board_is_there(cluster: Cluster, boards: Open) -> None:
    with pytest.raises(anynpu.ServerUnavailableError, match="no board of the cluster"):
        list(boards(timeout=1).map(frames(3)))


def test_a_raylet_is_killed_in_mid_work(
    cluster: Cluster, boards: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_board(cluster, monkeypatch, 10, 10, 10)
    dying = add_board(cluster, monkeypatch, 10, 10, 10)
    opened = boards()
    found = []
    for arrays in opened.map(frames(2000), stack=8):
        found.append(int(arrays[0].ravel()[0]))
        if len(found) == 300:
            cluster.remove_node(dying, allow_graceful=False)
    assert found == [number % 100 for number in range(2000)]
    # As they are done, and with a board that joins in mid-work.
    counted: Counter[int] = Counter()
    for number, arrays in enumerate(opened.map(frames(2000), stack=8, ordered=False)):
        counted[int(arrays[0].ravel()[0])] += 1
        if number == 100:
            add_board(cluster, monkeypatch, 10, 10, 10)
    assert counted == Counter(dict.fromkeys(range(100), 20))
    assert sum(place.is_open for place in opened._places) == 2


def test_actors_are_killed_in_mid_work(
    cluster: Cluster, boards: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_board(cluster, monkeypatch, 10, 10, 10)
    add_board(cluster, monkeypatch, 10, 10, 10)
    opened = boards()
    found = []
    killed = 0
    for arrays in opened.map(frames(3000), stack=8):
        found.append(int(arrays[0].ravel()[0]))
        if len(found) in (200, 1000):
            killed += kill_one_board()
    assert found == [number % 100 for number in range(3000)]
    assert killed == 2
    deadline = time.monotonic() + 60
    while len(opened.open_places()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    # Ray started them anew.
    assert len(opened.open_places()) == 2


def kill_one_board() -> int:
    for process in psutil.Process().children(recursive=True):
        try:
            is_board = any("ray::Board" in word for word in process.cmdline())
        except psutil.Error:
            continue
        if is_board:
            os.kill(process.pid, signal.SIGKILL)
            return 1
    return 0


def test_a_dataset_gets_the_outputs_as_columns(
    cluster: Cluster, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_board(cluster, monkeypatch, 1, 1)
    add_board(cluster, monkeypatch, 1, 1)
    pictures = np.stack([np.full(SHAPE[1:], number, np.uint8) for number in range(50)])
    dataset = ray.data.from_numpy(pictures)
    options = {"library": str(device / "librknnrt.so")}
    results = anynpu.ray.map(device / "model.rknn", dataset, provider_options=options)
    rows = results.take_all()
    assert sorted(int(row["y"].ravel()[0]) for row in rows) == list(range(50))
    for row in rows:
        assert row["y"].shape == (3, 4, 4)
        assert row["y"].ravel()[0] == row["data"].ravel()[0]
    two = dataset.add_column("label", lambda batch: np.zeros(len(batch["data"])))
    with pytest.raises(Exception, match="give it a column for each input"):
        anynpu.ray.map(device / "model.rknn", two, provider_options=options).take_all()
