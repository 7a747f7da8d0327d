"""KServe's model server round a session of ours: what `benchmarks.peers` compares."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

import anynpu


def served(kserve: Any, session: anynpu.InferenceSession) -> Any:
    """A model of one picture, whose handler does as KServe's documents show."""

    class Served(kserve.Model):  # type: ignore[misc] # without types
        async def predict(self, payload: Any, headers: Any = None, **more: Any) -> Any:
            picture = payload.inputs[0].as_numpy()
            (found,) = await session.run_awaitable(None, {"x": picture})
            output = kserve.InferOutput("y", list(found.shape), "FP32")
            output.set_data_from_numpy(found)
            return kserve.InferResponse(payload.id or "", self.name, [output])

    model = Served("null")
    model.ready = True
    return model


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--model", "--library", "--http", "--grpc"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    del sys.argv[1:]  # KServe reads them, too
    kserve: Any = import_module("kserve")
    session = anynpu.InferenceSession(
        options.model, provider_options={"library": options.library, "max_queue_size": 32}
    )
    kserve.ModelServer(
        http_port=int(options.http.rpartition(":")[2]),
        grpc_port=int(options.grpc.rpartition(":")[2]),
        enable_docs_url=False,
        workers=1,
    ).start([served(kserve, session)])


if __name__ == "__main__":
    main()
