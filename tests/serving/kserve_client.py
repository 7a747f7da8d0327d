"""What KServe's client gets of a server: `python -m tests.serving.kserve_client HTTP GRPC binary`.

In a process of its own: its messages have the names of Triton's, and a process has each once.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

import numpy as np

X = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)


async def ask(kserve: Any, http: str, grpc: str, *, is_binary: bool) -> list[Any]:
    """The answers to a request by both forms."""
    url = f"http://{http}"
    sent = kserve.InferInput("x", list(X.shape), "FP32")
    sent.set_data_from_numpy(X, binary_data=is_binary)
    request = kserve.InferRequest(model_name="add", infer_inputs=[sent], request_id="k")
    rest = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
    assert await rest.is_server_live(url)
    assert await rest.is_server_ready(url)
    assert await rest.is_model_ready(url, "add")
    by_grpc = kserve.InferenceGRPCClient(grpc)
    assert await by_grpc.is_server_ready()
    assert await by_grpc.is_model_ready("add")
    answers = [await rest.infer(url, request, model_name="add"), await by_grpc.infer(request)]
    await rest.close()
    await by_grpc.close()
    return answers


def main() -> None:
    """Ask, and look at the answers."""
    http, grpc, kind = sys.argv[1:]
    kserve: Any = import_module("kserve")
    for answer in asyncio.run(ask(kserve, http, grpc, is_binary=kind == "binary")):
        assert answer.id == "k"
        assert np.array_equal(answer.outputs[0].as_numpy(), X + 1)
    print("both answered")


if __name__ == "__main__":
    main()
