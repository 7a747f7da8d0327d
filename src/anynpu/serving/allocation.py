"""How a server's process gets memory for messages: pages that were touched before.

glibc gives the memory of a large message back to the kernel when it is freed, and the next message
touches pages that the kernel clears anew: more work than to receive it. A server gets messages of
one size again and again.
"""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_KEPT = 16 * 2**20
"""Bytes that stay with an arena when they are freed; a message of more is given back."""
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Keep memory that is freed for the next message, up to 16 MiB an arena; whether it is done.

    It isn't by another C library than glibc, which has no `mallopt`, nor on 32 bits, which have too
    few addresses, nor where the environment says how `malloc` is to be.
    """
    if any(name in os.environ for name in _VARIABLES):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # Both, or glibc would no longer adapt the one that is left.
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEPT)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT))
