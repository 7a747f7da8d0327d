"""`InferenceSession`: ONNX Runtime's names on an NPU."""

from .inference_session import InferenceSession
from .node import ModelMetadata, NodeArg

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg"]
