"""The file that `InferenceSession.end_profiling` writes, in the Trace Event Format."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .profile import Profile, Span

_MOST_REQUESTS = 10_000
_PROCESS = 1


class Trace:
    """The profile of a session that was opened to be profiled, and the file's name."""

    def __init__(self, prefix: str, cores: Sequence[int | None]) -> None:
        self.began = time.monotonic_ns()
        self.profile = Profile(cores, _MOST_REQUESTS)
        self._path = Path(f"{prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json")

    @classmethod
    def begin(cls, options: object, cores: Sequence[int | None]) -> Trace | None:
        """A trace where the options, ours or ONNX Runtime's, enable profiling."""
        if not getattr(options, "enable_profiling", False):
            return None
        return cls(str(getattr(options, "profile_file_prefix", "onnxruntime_profile_")), cores)

    def write(self) -> str:
        """Write the file; returns its name. Raises OSError where that fails."""
        import json

        events = [self._event(span) for span in self.profile.spans]
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
        self._path.write_text(text, encoding="utf-8")
        return str(self._path)

    def _event(self, span: Span) -> dict[str, Any]:
        return {
            "ph": "X",
            "pid": _PROCESS,
            "tid": span.worker,
            "name": span.stage,
            "ts": (span.begin - self.began) / 1000,
            "dur": (span.end - span.begin) / 1000,
            "args": {"request": span.request, "core": span.core},
        }
