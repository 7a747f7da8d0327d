"""What a program forgets is closed by the garbage collector, which runs in the middle of calls."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from anynpu import Model
from anynpu.soft import device_memory
from anynpu.soft.rknn import lent_outputs, tensor_memory

from .. import models

_SECONDS = 60


@pytest.mark.parametrize(
    "lock", [tensor_memory._lock, device_memory._alive_lock, lent_outputs.LENT._lock]
)
def test_the_collector_may_close_a_model_inside_a_call(lock: Any) -> None:
    """A call that holds a lock allocates, and the collector finds a model that needs the lock."""
    model = Model(models.add_one(), library="soft")
    model.run(np.zeros((1, 3, 4, 5), np.float32))
    ring: list[Any] = [model]
    ring.append(ring)
    del model, ring
    is_over = threading.Event()

    def collect() -> None:
        with lock:
            gc.collect()
        is_over.set()

    threading.Thread(target=collect, daemon=True).start()
    assert is_over.wait(_SECONDS)
