"""`InferenceSession`: ONNX Runtime's names on an NPU, many requests in flight, many cores."""

from .binding import SessionIOBinding
from .future import InferenceFuture
from .inference_session import InferenceSession
from .node import ModelMetadata, NodeArg
from .ort_value import OrtValue
from .profile import Profile, Span, Stage

__all__ = [
    "InferenceFuture",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Profile",
    "SessionIOBinding",
    "Span",
    "Stage",
]
