"""How many threads the C kernels share their work among.

As many as there are processors for this process, up to `MOST`, unless ``$ANYNPU_SOFT_THREADS`` says
another number. Runs at the same time share them (native/sharing.h).
"""

from __future__ import annotations

import os

from ..errors import OptionError

ENVIRONMENT_VARIABLE = "ANYNPU_SOFT_THREADS"

MOST = 16
"""What C has places for: MOST_THREADS of native/sharing.h."""


def thread_count() -> int:
    """Threads for one run. Raises `OptionError` where the variable isn't from 1 to `MOST`."""
    word = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if not word:
        return min(MOST, len(os.sched_getaffinity(0)))
    if not (word.isascii() and word.isdecimal() and 1 <= int(word[:9]) <= MOST):
        raise OptionError(
            f"${ENVIRONMENT_VARIABLE} is {word!r}; it is a number of threads from 1 to {MOST}, or "
            "unset for as many as there are processors"
        )
    return int(word)
