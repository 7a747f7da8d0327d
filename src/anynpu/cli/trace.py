"""A trace of requests on all cores in the Trace Event Format, which Perfetto and Chrome open."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..session import InferenceSession, Span
    from .feeds import Feed
    from .profile import LayerCost

_REQUESTS_PER_WORKER = 4
_PROCESS = 1
_RUN = "run"


def write_trace(
    path: str,
    session: InferenceSession,
    feed: Feed,
    runs_on: str,
    layers: Sequence[LayerCost],
) -> None:
    """Run some requests on all workers, and write what each did when, with the layers inside a run.

    The layers are as long in proportion as their times, so that they fill the run: each event's
    arguments have the times by the chip's clock and this machine's.
    """
    workers = session.network.worker_cores
    requests = _REQUESTS_PER_WORKER * len(workers)
    for _ in session.map(feed for _ in workers):
        pass
    with session.profile(spans=requests) as profile:
        for _ in session.map(feed for _ in range(requests)):
            pass
    spans = profile.spans
    events = [_process_name(runs_on), *_track_names(spans)]
    origin = min((span.begin for span in spans), default=0)
    for span in spans:
        events.append(_event(span.stage, span, span.begin - origin, span.end - span.begin))
        if span.stage == _RUN:
            events += _layers(span, span.begin - origin, layers)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def _process_name(name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": name}}


def _track_names(spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    for worker, core in sorted({(span.worker, span.core) for span in spans}, key=lambda w: w[0]):
        name = f"core {core}" if core is not None else f"worker {worker}"
        yield {
            "ph": "M",
            "pid": _PROCESS,
            "tid": worker,
            "name": "thread_name",
            "args": {"name": name},
        }


def _event(name: str, span: Span, begin: float, length: float, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": _PROCESS,
        "tid": span.worker,
        "name": name,
        "ts": begin / 1000,
        "dur": length / 1000,
        "args": {"request": span.request, **args},
    }


def _layers(span: Span, begin: float, layers: Sequence[LayerCost]) -> Iterator[dict[str, Any]]:
    times = [layer.chip_us for layer in layers]
    scale = (span.end - span.begin) / max(1, sum(times))
    for layer, time in zip(layers, times, strict=True):
        yield _event(
            f"{layer.type}:{layer.name}",
            span,
            begin,
            time * scale,
            chip_us=layer.chip_us,
            here_us=layer.host_us,
            target=layer.target,
            output=layer.output,
        )
        begin += time * scale
