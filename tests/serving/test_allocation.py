"""Memory that a server keeps for its next message."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import resource
from anynpu.serving.allocation import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        message = bytearray(4_000_000)
        message[::4096] = bytes(len(message[::4096]))
        del message
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), faults())
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or sys.maxsize < 2**32, reason="glibc of 64 bits has it"
)
def test_memory_that_was_freed_is_used_again() -> None:
    def outcome(**variables: str) -> tuple[str, int]:
        found = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env=os.environ | variables,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        return found[0], int(found[1])

    done, faults = outcome()
    assert done == "True"
    pages = 4_000_000 // os.sysconf("SC_PAGE_SIZE")
    assert faults < 3 * pages  # of 50 messages
    # What the environment says is left as it is.
    assert outcome(MALLOC_MMAP_THRESHOLD_="131072")[0] == "False"
