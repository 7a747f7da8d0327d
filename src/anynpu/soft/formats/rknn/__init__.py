"""The `.rknn` file: its soft variant, and the compiled file as an immutable description.

`soft_file` reads and writes the variant that carries an ONNX file. `reader.read_model` reads a
compiled file to a `model.CompiledModel`; that needs the packages of ``anynpu[formats]``.
"""

from __future__ import annotations

from .soft_file import SOFT_IDENTIFIER, Container, is_compiled, is_rknn, read, write_soft

__all__ = ["SOFT_IDENTIFIER", "Container", "is_compiled", "is_rknn", "read", "write_soft"]
