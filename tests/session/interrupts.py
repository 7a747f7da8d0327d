"""Interrupts at random moments of each way of running: ``python -m tests.session.interrupts``.

Each time one signal, whose handler raises, comes while a request runs. The exception has to arrive
in the caller, once, and a quiet run afterwards has to be right. Prints a line for each way.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import anynpu
from anynpu import InferenceSession, Model
from anynpu.rknn import Matmul

from .. import models
from ..soft.viplite.client import relu

SHAPE = (1, 3, 4, 5)
VALUES = np.ones(SHAPE, np.float32)
SIX = np.repeat(VALUES, 6, axis=0)
LATEST = 4e-3
PATIENCE = 20.0
QUIET_EVERY = 10

Way = Callable[[], tuple[Callable[[], object], Callable[[], bool]]]
"""Makes (what is interrupted, a run that has to be right)."""


def _session(model: bytes) -> InferenceSession:
    return InferenceSession(model, provider_options={"library": "soft", "max_queue_size": 6})


def _by_session(
    model: Callable[[], bytes], expected: float, use: Callable[[InferenceSession], object]
) -> Way:
    def make() -> tuple[Callable[[], object], Callable[[], bool]]:
        session = _session(model())
        return (
            lambda: use(session),
            lambda: bool((session.run(None, VALUES)[0] == expected).all()),
        )

    return make


def _callbacks(session: InferenceSession) -> None:
    seen: list[int] = []
    for number in range(6):
        session.run_async(None, VALUES, lambda results, user, error: seen.append(user), number)
    while len(seen) < 6:
        time.sleep(1e-4)


_in_main_task = threading.Event()


def _awaitable(session: InferenceSession) -> None:
    async def several() -> None:
        _in_main_task.set()
        try:
            await asyncio.gather(*(session.run_awaitable(None, VALUES) for _ in range(4)))
        finally:
            _in_main_task.clear()

    asyncio.run(several())


def _binding() -> tuple[Callable[[], object], Callable[[], bool]]:
    session = _session(models.add_one(SHAPE))
    binding = session.io_binding()
    binding.bind_cpu_input("x", VALUES)

    def is_right() -> bool:
        binding.run()
        return bool((binding.copy_outputs_to_cpu()[0] == 2).all())

    is_right()
    return binding.run, is_right


def _model(data: Callable[[], bytes], expected: float, **options: Any) -> Way:
    def make() -> tuple[Callable[[], object], Callable[[], bool]]:
        model = Model(data(), library="soft", **options)
        values = np.ones(model.input_attrs[0].shape, np.float32)

        def is_right() -> bool:
            model.run(values)
            return bool((model.output_f32(0) == expected).all())

        return is_right, is_right

    return make


def _matmul() -> tuple[Callable[[], object], Callable[[], bool]]:
    product = Matmul(4, 64, 64, library="soft")
    product.set_b(np.ones((64, 64), np.int8))
    a = np.ones((4, 64), np.int8)
    return lambda: product.run(a), lambda: bool((product.run(a) == 64).all())


WAYS: dict[str, Way] = {
    "run": _by_session(models.add_one, 2, lambda s: s.run(None, VALUES)),
    "run_async": _by_session(models.add_one, 2, _callbacks),
    "submit": _by_session(models.add_one, 2, lambda s: s.submit(None, VALUES).result()),
    "map": _by_session(models.add_one, 2, lambda s: list(s.map([VALUES] * 6))),
    "map as done": _by_session(
        models.add_one, 2, lambda s: list(s.map([VALUES] * 6, ordered=False))
    ),
    "run_pipeline": _by_session(models.add_one, 2, lambda s: s.run_pipeline(VALUES)),
    "split batches": _by_session(
        models.add_one,
        2,
        lambda s: s.run(None, SIX, batch="split"),
    ),
    "asyncio": _by_session(models.add_one, 2, _awaitable),
    "io_binding": _binding,
    "Model": _model(lambda: models.add_one(SHAPE), 2),
    "Matmul": _matmul,
    "VIPLite run": _by_session(relu, 1, lambda s: s.run(None, VALUES)),
    "VIPLite submit": _by_session(relu, 1, lambda s: s.submit(None, VALUES).result()),
    "VIPLite map": _by_session(relu, 1, lambda s: list(s.map([VALUES] * 6))),
    "VIPLite Model": _model(relu, 1),
}


BY_SIGINT = {"asyncio"}
"""What is raised in the middle of an event loop's own work breaks the loop. `asyncio.run` takes
SIGINT for itself and cancels its main task: so these are interrupted while they have one."""
AGAIN = 1e-4


def interrupt(name: str, count: int, seed: int) -> str:
    """Interrupt a way so often; empty, or what went wrong."""
    chosen = random.Random(seed)
    # CPython drops what is raised in a finaliser: none of an earlier way's is left.
    gc.collect()
    work, is_right = WAYS[name]()
    fired = [0]

    def handler(*_: object) -> None:
        if name in BY_SIGINT and not _in_main_task.is_set():
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        fired[0] += 1
        if name not in BY_SIGINT:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGALRM, handler)
    caught = 0
    for number in range(count):
        try:
            signal.setitimer(signal.ITIMER_REAL, chosen.uniform(2e-5, LATEST))
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and fired[0] == number:
                work()
            return f"interrupt {number} never came out, handlers run {fired[0]}"
        except KeyboardInterrupt:
            caught += 1
        except Exception as error:
            return f"interrupt {number} came out as {type(error).__name__}: {error}"
        if number % QUIET_EVERY == 0 and not is_right():
            return f"the run after interrupt {number} is wrong"
    is_right_count = fired[0] == caught == count
    return "" if is_right_count else f"{fired[0]} handlers, {caught} exceptions"


def main() -> int:
    """Run the command line; returns 1 where something went wrong."""
    parser = argparse.ArgumentParser(description="interrupt each way of running")
    parser.add_argument("count", type=int)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--seed", type=int, default=os.getpid())
    options = parser.parse_args()
    os.environ["ANYNPU_DEVICE"] = "soft"
    warnings.simplefilter("ignore", anynpu.SoftNpuWarning)
    problems = 0
    for name in options.ways or WAYS:
        problem = interrupt(name, options.count, options.seed)
        print(f"{name}: {problem or f'{options.count} interrupts'}", flush=True)
        problems += bool(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
