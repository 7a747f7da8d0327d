"""`InferenceSession` in all its ways of running, on one file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anynpu
from anynpu.rknn.abi import TensorFormat
from anynpu.rknn.context import Context

Feed = dict[str, NDArray[Any]]


def plain_run(path: str, arrays: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
    """What the C calls alone give, images NHWC, in a context that nothing else used."""
    with Context(path) as context:
        formats = [TensorFormat[info.layout.name] for info in context.inputs]
        context.set_inputs([np.ascontiguousarray(array) for array in arrays], formats)
        context.run()
        outputs = [np.empty(info.shape, np.float32) for info in context.outputs]
        context.get_outputs(outputs, as_float=True)
        return outputs


def random_feed(session: anynpu.InferenceSession, seed: int, dtype: str) -> Feed:
    """Numbers that a dtype has exactly, for each input."""
    random = np.random.default_rng(seed)
    return {
        node.name: random.integers(0, 100, node.shape).astype(dtype)
        for node in session.get_inputs()
    }


def plain_result(path: str, feed: Feed) -> NDArray[np.float32]:
    """The first output of `plain_run`, with the types that the library converts from.

    Where not all inputs are bytes, all are given as float32.
    """
    are_bytes = all(array.dtype == np.uint8 for array in feed.values())
    arrays = [array if are_bytes else array.astype(np.float32) for array in feed.values()]
    arrays = [array.transpose(0, 2, 3, 1) if array.ndim == 4 else array for array in arrays]
    return plain_run(path, arrays)[0]


def in_every_way(path: str, dtype: str, options: dict[str, Any]) -> dict[str, Any]:
    """The first output for one feed, by each way to run it."""
    with anynpu.InferenceSession(path, provider_options=options) as session:
        feed = random_feed(session, 3, dtype)
        found: dict[str, Any] = {"expected": plain_result(path, feed)}
        found["run"] = session.run(None, feed)[0]
        backwards = {name: array[:, ::-1][:, ::-1] for name, array in feed.items()}
        found["run, no order in memory"] = session.run(None, backwards)[0]
        found["submit"] = session.submit(None, feed).result()[0]
        found["map"] = np.stack([result[0] for result in session.map(feed for _ in range(7))])
        piped = [session.run_pipeline(feed) for _ in range(5)]
        results = [result for result in (*piped, *session.flush()) if result is not None]
        found["run_pipeline"] = np.stack([result[0] for result in results])
        found["run_async"] = _asynchronously(session, feed)
        found["threads"] = np.stack(in_threads(session, [feed] * 4))
        return found


def _asynchronously(session: anynpu.InferenceSession, feed: Feed) -> NDArray[Any]:
    done = threading.Event()
    got: list[Any] = []

    def take(results: Any, user_data: Any, error: str) -> None:
        got.append(results[0] if results is not None else np.array(error))
        done.set()

    session.run_async(None, feed, take)
    done.wait(60)
    return np.asarray(got[0])


def in_threads(session: anynpu.InferenceSession, feeds: Sequence[Feed]) -> list[NDArray[Any]]:
    """The first output for each feed, each run by a thread of its own."""
    results: list[Any] = [None] * len(feeds)

    def run(place: int) -> None:
        results[place] = session.run(None, feeds[place])[0]

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(feeds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def of_mixed_types(path: str, dtypes: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Feeds of one dtype after another in one session, by several ways to run it."""
    with anynpu.InferenceSession(path, provider_options=options) as session:
        feeds = [random_feed(session, number, dtype) for number, dtype in enumerate(dtypes)]
        return {
            "expected": np.stack([plain_result(path, feed) for feed in feeds]),
            "run": np.stack([session.run(None, feed)[0] for feed in feeds]),
            "map": np.stack([result[0] for result in session.map(feeds)]),
            "submit": np.stack(
                [each.result()[0] for each in [session.submit(None, feed) for feed in feeds]]
            ),
            "threads": np.stack(in_threads(session, feeds)),
        }


def of_mixed_pictures(path: str) -> dict[str, Any]:
    """Feeds of two inputs that have different dtypes, in each combination."""
    with anynpu.InferenceSession(path) as session:
        names = [node.name for node in session.get_inputs()]
        feeds = []
        for number, (first, second) in enumerate(
            [("uint8", "uint8"), ("uint8", "float32"), ("float32", "uint8"), ("float32",) * 2]
        ):
            feed = random_feed(session, number, "uint8")
            feeds.append(
                {names[0]: feed[names[0]].astype(first), names[1]: feed[names[1]].astype(second)}
            )
        return {
            "expected": np.stack([plain_result(path, feed) for feed in feeds]),
            "run": np.stack([session.run(None, feed)[0] for feed in feeds]),
            "again": np.stack([session.run(None, feed)[0] for feed in feeds]),
        }


def beyond_the_range(path: str, dtype: str) -> dict[str, Any]:
    """Values far beyond an input's range, and the same at its ends."""
    with anynpu.InferenceSession(path) as session, Context(path) as context:
        info = context.inputs[0]
        bounds = np.iinfo(info.dtype.numpy.name)
        low, high = ((int(b) - info.zero_point) * info.scale for b in (bounds.min, bounds.max))
        random = np.random.default_rng(5)
        values = random.integers(0, 255, info.shape).astype(dtype)
        if dtype != "uint8":
            values -= values.dtype.type(100)
        limited = np.clip(values.astype(np.float32), np.float32(low), np.float32(high))
        return {
            "expected": plain_run(path, [limited])[0],
            "run": session.run(None, values)[0],
            "submit": session.submit(None, values).result()[0],
            "given": values,
            "limited": limited,
        }


def by_rknnlite(path: str, dtypes: Sequence[str]) -> dict[str, Any]:
    """Pictures of one dtype after another by the interface of rknn-toolkit-lite2."""
    from anynpu.compat.rknnlite import RKNNLite

    rknn = RKNNLite()
    assert rknn.load_rknn(path) == 0
    assert rknn.init_runtime() == 0
    results, expected = [], []
    for number, dtype in enumerate(dtypes):
        with Context(path) as context:
            shape = context.inputs[0].shape
        pixels = np.random.default_rng(number).integers(0, 100, shape).astype(dtype)
        outputs = rknn.inference([pixels])
        assert outputs is not None
        results.append(outputs[0])
        plain = pixels if dtype == "uint8" else pixels.astype(np.float32)
        expected.append(plain_run(path, [plain])[0])
    rknn.release()
    return {"run": np.stack(results), "expected": np.stack(expected)}
