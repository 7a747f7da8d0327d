"""How long the stages of requests take: waiting, each C call, the callback."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..native.pump import RequestRecord

WAIT, CALLBACK, TOTAL = "wait", "callback", "total"
_PERCENTILES = (50, 90, 99)
_WIDTH = math.log(1.01)
"""Times within one per cent of each other count as one."""
_LABELS = {
    "rknn_set_input_shapes": "set shapes",
    "rknn_set_io_mem": "bind memory",
    "anynpu_arrange": "arrange input",
    "rknn_inputs_set": "set input",
    "rknn_run": "run",
    "rknn_outputs_get": "get output",
    "rknn_outputs_release": "release",
    "anynpu_send": "set input",
    "vip_run_network": "run",
    "anynpu_receive": "get output",
}


@dataclass(frozen=True)
class Stage:
    """One stage's times in microseconds, over `count` requests; percentiles to one per cent."""

    name: str
    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    maximum: float


@dataclass(frozen=True)
class Span:
    """One stage of one request: which worker did it, on which core, and when.

    `core` is None where the runtime chose one; times are nanoseconds of `time.monotonic`.
    """

    stage: str
    request: int
    worker: int
    core: int | None
    begin: int
    end: int


class Profile:
    """The requests of a session that ended while it was active. Any thread may read it.

    `print(profile)` shows the table of `stages`. ``wait`` is the time in the queue, ``total`` from
    the submission to the last C call's end. It takes the same memory however many there are.
    `spans` are the stages of the last `keeps` requests, in the order in which they ended.
    """

    def __init__(self, cores: Sequence[int | None] = (), keeps: int = 0) -> None:
        self._lock = threading.Lock()
        self._cores = tuple(cores)
        self._ended = 0
        self._kept: deque[tuple[Span, ...]] = deque(maxlen=keeps)
        self._times: dict[str, _Times] = {}

    def add(self, record: RequestRecord, steps: Sequence[str]) -> None:
        """Take a finished request's times."""
        with self._lock:
            self._append(WAIT, record.started - record.submitted)
            if self._kept.maxlen:
                self._kept.append(tuple(self._spans(record, steps)))
            self._ended += 1
            begin = record.started
            for name, end in zip(steps, record.ends, strict=False):
                self._append(_LABELS.get(name, name), end - begin)
                begin = end
            self._append(TOTAL, begin - record.submitted)

    def _spans(self, record: RequestRecord, steps: Sequence[str]) -> Iterator[Span]:
        worker = int(record.worker)
        core = self._cores[worker] if worker < len(self._cores) else None
        begin = record.started
        for name, end in zip(steps, record.ends, strict=False):
            yield Span(_LABELS.get(name, name), self._ended, worker, core, begin, end)
            begin = end

    @property
    def spans(self) -> tuple[Span, ...]:
        """The stages of the last requests; empty unless they are kept."""
        with self._lock:
            return tuple(span for request in self._kept for span in request)

    def add_callback(self, seconds: float) -> None:
        """Take a callback's time."""
        with self._lock:
            self._append(CALLBACK, seconds * 1e9)

    def _append(self, name: str, nanoseconds: float) -> None:
        self._times.setdefault(name, _Times()).add(nanoseconds / 1e3)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in their order."""
        with self._lock:
            return tuple(times.stage(name) for name, times in self._times.items())

    def __str__(self) -> str:
        rows = [
            f"{'stage':12} {'count':>7} {'mean':>9} {'p50':>9} {'p90':>9} {'p99':>9} {'max':>9}"
        ]
        rows += [
            f"{s.name:12} {s.count:7} {s.mean:9.1f} {s.p50:9.1f} {s.p90:9.1f} {s.p99:9.1f} "
            f"{s.maximum:9.1f}"
            for s in self.stages
        ]
        return "\n".join([*rows, "(microseconds)"])


class _Times:
    """A histogram of times: of a long run it keeps no more than of a short one."""

    def __init__(self) -> None:
        self._count, self._sum, self._most = 0, 0.0, 0.0
        self._bins: Counter[int] = Counter()

    def add(self, microseconds: float) -> None:
        self._count += 1
        self._sum += microseconds
        self._most = max(self._most, microseconds)
        self._bins[_bin(microseconds)] += 1

    def stage(self, name: str) -> Stage:
        p50, p90, p99 = (self._percentile(share / 100) for share in _PERCENTILES)
        return Stage(name, self._count, self._sum / self._count, p50, p90, p99, self._most)

    def _percentile(self, share: float) -> float:
        rank, below = math.ceil(share * self._count), 0
        for number, count in sorted(self._bins.items()):
            below += count
            if below >= rank:
                return min(self._most, _middle(number))
        return self._most


def _bin(microseconds: float) -> int:
    """Times up to a nanosecond share the first bin."""
    return max(0, round(math.log(max(microseconds * 1e3, 1.0)) / _WIDTH))


def _middle(number: int) -> float:
    return math.exp(number * _WIDTH) / 1e3 if number else 0.0
