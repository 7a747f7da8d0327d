"""Make `open_inference_pb2.py` and its types from `open_inference.proto`.

    pip install grpcio-tools
    python -m anynpu.serving.protocol.generate

It runs the protocol buffers' own compiler. What that writes is changed in two places. Messages go
to a pool of their own: other packages bring the same protocol (Triton's client, KServe), and one
pool refuses a second file with the same names, so that they couldn't be imported together with
this one. And the check is left out that ties a file to the compiler's release.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

_FOLDER = Path(__file__).parent
PROTO = "open_inference.proto"
_VERSION_CHECK = re.compile(r"_runtime_version\.ValidateProtobufRuntimeVersion\(.*?\n\)\n", re.S)
_VERSION_IMPORT = "from google.protobuf import runtime_version as _runtime_version\n"
_VERSION_LINE = re.compile(r"^# Protobuf Python Version: .*\n", re.M)


def generate() -> dict[str, str]:
    """The generated files' texts by their names; needs grpcio-tools."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        arguments = [f"-I{_FOLDER}", f"--python_out={folder}", f"--pyi_out={folder}", PROTO]
        if protoc.main(["protoc", *arguments]):
            raise RuntimeError(f"the compiler refused {PROTO}; its lines above say why")
        texts = {path.name: path.read_text() for path in sorted(Path(folder).iterdir())}
    return {name: _adapted(text) for name, text in texts.items()}


def _adapted(text: str) -> str:
    text = text.replace("_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()")
    text = _VERSION_CHECK.sub("", text).replace(_VERSION_IMPORT, "")
    return _VERSION_LINE.sub("", text)


if __name__ == "__main__":
    for name, text in generate().items():
        (_FOLDER / name).write_text(text)
