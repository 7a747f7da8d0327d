"""What a board's Python runs: functions of modules, each in a child of a process that is ready.

    python -m tests.conformance.vendor_runtime.call

A line of JSON on the standard input names a call: `module`, `function`, `arguments`,
`environment`, `seconds`, and the files for its `values` and `log`. The answer is a line with the
child's status, negative where a signal ended it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

import anynpu

anynpu.Model, anynpu.InferenceSession  # noqa: B018 - imports what children need

_POLL_SECONDS = 0.01


def save(call: Mapping[str, Any]) -> bool:
    """Save what the function gives: arrays, or texts; what it raised is called !."""
    try:
        function = getattr(import_module(call["module"]), call["function"])
        found: dict[str, Any] = dict(function(*call["arguments"]))
    except Exception as error:
        found = {"!": f"{type(error).__name__}: {error}"}
    values: dict[str, Any] = {
        name: value if isinstance(value, (np.ndarray, np.generic)) else np.array(str(value))
        for name, value in found.items()
    }
    np.savez(call["values"], **values)
    return "!" not in found


def _child(call: Mapping[str, Any]) -> int:
    log = os.open(call["log"], os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(call["environment"])
    is_done = save(call)
    sys.stdout.flush()
    sys.stderr.flush()
    return 0 if is_done else 1


def _run(call: Mapping[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _child(call)
        finally:
            os._exit(status)
    deadline = time.monotonic() + call["seconds"]
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def main() -> None:
    """Answer calls until the input ends."""
    for line in sys.stdin:
        print(_run(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
