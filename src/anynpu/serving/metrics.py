"""What a server counts, for Prometheus; the text is prometheus-client's."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .. import npu_state
from ..native.pump import RequestRecord
from ..session.profile import Profile
from .answers import Answer
from .models import Models

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24,
    30.0,
)  # fmt: skip


class Metrics:
    """A server's counters. Any thread may count."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "anynpu_requests",
            "Requests that were answered, by model, protocol and code.",
            ("model", "protocol", "code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "anynpu_request_seconds",
            "From a request's last byte to its answer.",
            ("model",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._queue = Histogram(
            "anynpu_queue_seconds",
            "How long requests waited for a worker.",
            ("model",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._busy = Counter(
            "anynpu_core_busy_seconds",
            "How long workers were at work, by model and worker.",
            ("model", "worker"),
            registry=self.registry,
        )

        # Looking a label's counter up costs more than counting.
        self._counter = functools.cache(self._requests.labels)
        self._histogram = functools.cache(self._seconds.labels)

    def answered(self, model: str, protocol: str, answer: Answer, seconds: float) -> None:
        """A request was answered; `model` is empty for one that names none of the server's."""
        self._counter(model, protocol, answer.code).inc()
        if answer is Answer.OK:
            self._histogram(model).observe(seconds)

    def profile(self, model: str) -> Profile:
        """What a session tells the times of its requests to."""
        return _Times(self._queue.labels(model), self._busy, model)

    def watch(self, models: Models, under_way: Callable[[], dict[str, int]]) -> None:
        """Tell of models and of the device too, when asked; `under_way` counts requests."""
        self.registry.register(_State(models, under_way))

    def text(self) -> bytes:
        """All of it, in Prometheus's form."""
        return generate_latest(self.registry)


class _Times(Profile):
    """A profile that goes to histograms; it keeps nothing itself."""

    def __init__(self, queue: Histogram, busy: Counter, model: str) -> None:
        super().__init__()
        self._queue, self._busy, self._model = queue, busy, model
        self._workers: dict[int, Counter] = {}
        self._adding = threading.Lock()

    def add(self, record: RequestRecord, steps: Sequence[str]) -> None:
        """Take a finished request's times."""
        self._queue.observe((record.started - record.submitted) / 1e9)
        worker = int(record.worker)
        with self._adding:
            if worker not in self._workers:
                self._workers[worker] = self._busy.labels(self._model, str(worker))
        self._workers[worker].inc(max(0, record.ends[len(steps) - 1] - record.started) / 1e9)

    def add_callback(self, seconds: float) -> None:
        """Callbacks are the server's own."""


class _State(Collector):
    """What is read when Prometheus asks."""

    def __init__(self, models: Models, under_way: Callable[[], dict[str, int]]) -> None:
        self._models, self._under_way = models, under_way

    def collect(self) -> Iterator[Metric]:
        """The models' state, the requests under way, and the device's."""
        yield from self._of_models()
        yield from _device()

    def _of_models(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily("anynpu_model_ready", "1 for a ready model.", labels=["model"])
        loads = CounterMetricFamily(
            "anynpu_model_loads", "How often it was opened.", labels=["model"]
        )
        workers = GaugeMetricFamily("anynpu_workers", "Workers of a model.", labels=["model"])
        running = GaugeMetricFamily(
            "anynpu_tasks_running", "Requests that workers have.", labels=["model"]
        )
        waiting = GaugeMetricFamily(
            "anynpu_tasks_waiting", "Requests that wait for a worker.", labels=["model"]
        )
        under_way = self._under_way()
        for name, served in self._models.served.items():
            count = served.current.workers if served.current else 0
            ready.add_metric([name], float(served.current is not None))
            loads.add_metric([name], served.loads)
            workers.add_metric([name], count)
            running.add_metric([name], min(under_way.get(name, 0), count))
            waiting.add_metric([name], max(0, under_way.get(name, 0) - count))
        yield from (ready, loads, workers, running, waiting)


def _device() -> Iterator[Metric]:
    """What the kernel shows of the NPU; nothing where it shows none."""
    state = npu_state.read(Path("/"))
    load = GaugeMetricFamily("anynpu_npu_load_ratio", "The NPU's load, by core.", labels=["core"])
    for core, share in state.loads.items():
        load.add_metric([core], share)
    clock = GaugeMetricFamily("anynpu_npu_clock_hertz", "The NPU's clock.", state.hertz)
    heat = GaugeMetricFamily("anynpu_npu_temperature_celsius", "The NPU's heat.", state.celsius)
    if state.loads:
        yield load
    if state.hertz is not None:
        yield clock
    if state.celsius is not None:
        yield heat
