"""Ray Serve round a session of ours: what `benchmarks.peers` compares.

A request is a picture's bytes, an answer the output's: Ray Serve has no protocol of its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from importlib import import_module
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

import anynpu

_MOST_AT_ONCE = 32


class Served:
    """One replica, with all of the board's cores."""

    def __init__(self, path: str, library: str) -> None:
        self._session = anynpu.InferenceSession(
            path, provider_options={"library": library, "max_queue_size": _MOST_AT_ONCE}
        )
        self._shape = self._session.get_inputs()[0].shape

    async def __call__(self, request: Request) -> Response:
        """The output of a request."""
        picture = np.frombuffer(await request.body(), np.uint8).reshape(self._shape)
        (found,) = await self._session.run_awaitable(None, {"x": picture})
        return Response(found.tobytes())


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--model", "--library", "--http"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = import_module("ray")
    serve: Any = import_module("ray.serve")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    host, _, port = options.http.rpartition(":")
    serve.start(http_options={"host": host, "port": int(port)})
    deployment = serve.deployment(
        Served, max_ongoing_requests=_MOST_AT_ONCE, ray_actor_options={"num_cpus": 1}
    )
    serve.run(deployment.bind(options.model, options.library))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())  # in the place of Ray's
    ended.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
