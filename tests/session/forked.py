"""A process that forks: ``python -m tests.session.forked [busy]``; prints what the child may do."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np

from anynpu import InferenceSession, Model, SoftNpuWarning
from anynpu.rknn import Matmul

from .. import models
from ..soft.viplite.client import relu

SHAPE = (1, 3, 4, 5)
VALUES = np.zeros(SHAPE, np.float32)


def keep_busy() -> None:
    """Run a slow model on a thread, for ever."""
    session = InferenceSession(models.repeated_convolution(size=96, filters=32, layers=6))
    feed = {arg.name: np.zeros(arg.shape, np.float32) for arg in session.get_inputs()}

    def run() -> None:
        while True:
            session.run(None, feed)

    threading.Thread(target=run, daemon=True).start()
    time.sleep(0.3)


def opened() -> dict[str, Callable[[], object]]:
    """What is opened before the fork: names, and what uses it."""
    session, closed = InferenceSession(models.add_one()), InferenceSession(models.add_one())
    session.submit(None, VALUES).result()
    binding = session.io_binding()
    binding.bind_cpu_input("x", VALUES)
    binding.run()
    model, network = Model(models.add_one(SHAPE)), Model(relu("t527"))
    values = np.zeros(model.input_attrs[0].shape, np.float32)
    model.run(values)
    network.run(VALUES)
    product, a = Matmul(4, 32, 32), np.ones((4, 32), np.int8)
    product.run(a, np.ones((32, 32), np.int8))
    closed.close()
    return {
        "session": lambda: session.run(None, VALUES),
        "submit": lambda: session.submit(None, VALUES),
        "map": lambda: list(session.map([VALUES])),
        "binding": binding.run,
        "closed": lambda: closed.run(None, VALUES),
        "model": lambda: model.run(values),
        "VIPLite": lambda: network.run(VALUES),
        "matmul": lambda: product.run(a),
    }


def attempt(use: Callable[[], object]) -> str:
    """The exception's name, or "works"."""
    try:
        use()
    except Exception as error:
        return type(error).__name__
    return "works"


def main() -> None:
    """Fork, and say what each thing does in the child."""
    os.environ["ANYNPU_DEVICE"] = "soft"
    warnings.simplefilter("ignore", SoftNpuWarning)
    uses = opened()
    if "busy" in sys.argv:
        keep_busy()
    child = os.fork()
    if not child:
        for name, use in uses.items():
            print(name, attempt(use))
        print("anew", attempt(lambda: InferenceSession(models.add_one()).run(None, VALUES)))
        print("VIPLite anew", attempt(lambda: Model(relu("t527")).run(VALUES)))
        sys.exit(3)
    _, status = os.waitpid(child, 0)
    print("status", os.waitstatus_to_exitcode(status), attempt(uses["session"]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
