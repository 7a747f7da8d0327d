"""A server that takes the protocol's messages and answers with an empty output: what is compared.

It has the frameworks of `anynpu serve` and the same settings of them, and does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import grpc
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from anynpu.serving import tensors
from anynpu.serving.allocation import keep_freed_memory
from anynpu.serving.protocol import METHODS, SERVICE, messages

_OUTPUT = np.zeros((1, 3, 4, 4), np.float32)


async def _rest(request: Request) -> Response:
    await request.body()
    return Response(_OUTPUT.tobytes())


async def _infer(request: Any, context: Any) -> Any:
    answer = messages.ModelInferResponse(model_name=request.model_name)
    tensors.write_tensor(answer, "y", _OUTPUT)
    return answer


async def _serve(http: str, address: str) -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    method = METHODS["ModelInfer"]
    handler = grpc.unary_unary_rpc_method_handler(
        _infer, method.request.FromString, method.response.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {method.name: handler}),)
    )
    server.add_insecure_port(address)
    await server.start()
    host, _, port = http.partition(":")
    application = Starlette(routes=[Route("/{path:path}", _rest, methods=["POST"])])
    config = uvicorn.Config(
        application, host=host, port=int(port), http="httptools", log_level="critical",
        access_log=False, lifespan="off", timeout_keep_alive=600,
    )  # fmt: skip
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", required=True)
    parser.add_argument("--grpc", required=True)
    options = parser.parse_args()
    keep_freed_memory()
    asyncio.run(_serve(options.http, options.grpc))
