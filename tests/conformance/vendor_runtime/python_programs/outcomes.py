"""What a function may do to its process."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np


def tell(numbers: Sequence[int]) -> dict[str, Any]:
    """Write to both streams; give an array and a text."""
    print("on one stream", flush=True)
    print("on the other", file=sys.stderr, flush=True)
    bits = 8 * ctypes.sizeof(ctypes.c_void_p)
    return {
        "numbers": np.array(numbers),
        "machine": f"{os.environ.get('ANYNPU_TOLD')} {bits}",
    }


def fail() -> dict[str, Any]:
    """Raise."""
    raise ValueError("no such thing")


def abort() -> dict[str, Any]:
    """End the process."""
    os.abort()


def sleep() -> dict[str, Any]:
    """Take too long."""
    time.sleep(60)
    return {}
