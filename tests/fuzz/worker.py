"""A forked process that tries inputs, and what it left behind when it ended."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .inputs import Inputs

_WARM = 1000
"""Inputs after which everything that is kept is there: libraries, caches."""
_MOST_GROWTH = 512 << 20
"""Bytes that a process may grow after it is warm; caches still fill."""
_THREADS_END_WITHIN = 10.0
"""Seconds: helpers of the last run may still be ending where others have the processor."""
_PAUSE = 0.05
_MOST_ERRORS = 20000
_LEAKED = 66
_LEAK_CHECK = "__lsan_do_recoverable_leak_check"


class _Progress(ctypes.Structure):
    """How far a worker is, in memory that it shares with the driver."""

    _fields_ = (
        ("inputs", ctypes.c_int64),
        ("ran", ctypes.c_int64),
        ("refused", ctypes.c_int64),
        ("failures", ctypes.c_int64),
        ("since", ctypes.c_double),
        ("stops", ctypes.c_int64),
    )


_COUNTS = ("inputs", "ran", "refused", "failures")


class Worker:
    """One process, with inputs of some numbers; `end` is what it ended with, if not well."""

    def __init__(self, numbers: range, folder: Path, progress: _Progress) -> None:
        self.numbers = numbers
        self.end = ""
        self._folder = folder
        self._progress = progress
        self._process = 0
        self._driver = os.getpid()

    @classmethod
    def start(cls, kind: Inputs, numbers: range, gigabytes: float) -> Worker:
        """Fork it."""
        progress = _Progress.from_buffer(mmap.mmap(-1, ctypes.sizeof(_Progress)))
        progress.since = time.monotonic()
        worker = cls(numbers, Path(tempfile.mkdtemp(prefix="anynpu-fuzz-")), progress)
        worker._process = os.fork()
        if not worker._process:
            code = 1
            try:
                worker._prepare(gigabytes)
                code = worker._work(kind)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        return worker

    @property
    def current(self) -> int:
        """The number of the input that it tries, or died of."""
        return self.numbers[max(0, int(self._progress.inputs) - 1)]

    def left(self) -> range:
        """What it didn't get to, as it ended before; never all, so that there is an end."""
        return self.numbers[max(1, int(self._progress.inputs)) :]

    def counts(self) -> Counter[str]:
        """Inputs so far, and what became of them."""
        return Counter({name: getattr(self._progress, name) for name in _COUNTS})

    def stop(self) -> None:
        """Ask it to end after the input that it tries."""
        self._progress.stops = 1

    def has_ended(self, patience: float) -> bool:
        """Whether it has; one that takes longer than `patience` seconds for an input is ended."""
        found, status = os.waitpid(self._process, os.WNOHANG)
        if not found:
            if time.monotonic() - self._progress.since < patience:
                return False
            self.end = "hangs"
            # faulthandler writes where it was.
            os.kill(self._process, signal.SIGABRT)
            time.sleep(1)
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            return True
        code = os.waitstatus_to_exitcode(status)
        if code:
            self.end = "leaks" if code == _LEAKED else "crashes"
        return True

    def errors(self) -> str:
        """The end of what it wrote."""
        return (self._folder / "errors").read_text(errors="replace")[-_MOST_ERRORS:]

    def failures(self) -> Iterator[tuple[int, str]]:
        """Numbers of inputs with what they raised."""
        path = self._folder / "failures"
        for line in path.read_text().splitlines() if path.exists() else ():
            number, problem = json.loads(line)
            yield number, problem

    def remove(self) -> None:
        """Forget what it left in files."""
        shutil.rmtree(self._folder)

    def _prepare(self, gigabytes: float) -> None:
        # The driver is told by Ctrl-C, and tells the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        errors = os.open(self._folder / "errors", os.O_WRONLY | os.O_CREAT)
        os.dup2(errors, 2)
        faulthandler.enable()
        if gigabytes:
            most = int(gigabytes * (1 << 30))
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def _work(self, kind: Inputs) -> int:
        progress, before = self._progress, (0, 0, 0)
        for tried, number in enumerate(self.numbers, start=1):
            if progress.stops or os.getppid() != self._driver:
                break
            progress.inputs += 1
            progress.since = time.monotonic()
            _, data = kind.input(number)
            try:
                found = kind.check(data)
                setattr(progress, found, getattr(progress, found) + 1)
            except Exception:
                progress.failures += 1
                with open(self._folder / "failures", "a") as failures:
                    failures.write(json.dumps([number, traceback.format_exc()]) + "\n")
            if tried == _WARM:
                before = _held()
        return _LEAKED if self._leaks(before) else 0

    def _leaks(self, before: tuple[int, int, int]) -> bool:
        """Whether more is held than before, by any measure; a sanitizer knows best."""
        gc.collect()
        check = getattr(ctypes.CDLL(None), _LEAK_CHECK, None)
        if check is not None and check():
            return True
        if not any(before):
            return False
        until = time.monotonic() + _THREADS_END_WITHIN
        while True:
            size, files, threads = (now - old for now, old in zip(_held(), before, strict=True))
            # Threads of the kernels begin when a task is large enough, and end after it.
            if threads <= 0 or time.monotonic() > until:
                break
            time.sleep(_PAUSE)
        if size > _MOST_GROWTH or files > 0 or threads > (os.cpu_count() or 1):
            print(f"{size} bytes, {files} files, {threads} threads more", file=sys.stderr)
            return True
        return False


def _held() -> tuple[int, int, int]:
    """Bytes, open files and threads of this process."""
    gc.collect()
    size = int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    return size, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
