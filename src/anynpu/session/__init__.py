"""`InferenceSession`: ONNX Runtime's names on an NPU, many tasks in flight, many cores."""

from .future import InferenceFuture
from .inference_session import InferenceSession
from .node import ModelMetadata, NodeArg
from .profile import Profile, Stage

__all__ = [
    "InferenceFuture",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "Profile",
    "Stage",
]
