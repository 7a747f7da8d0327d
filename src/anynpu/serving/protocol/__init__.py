"""The Open Inference Protocol v2 over gRPC: its messages and calls, from `open_inference.proto`.

`messages` are the protocol's messages, `METHODS` its calls, for servers and clients alike.
"""

from . import open_inference_pb2 as messages
from .calls import METHODS, SERVICE, WORKERS_KEY, Method, Stub

__all__ = ["METHODS", "SERVICE", "WORKERS_KEY", "Method", "Stub", "messages"]
