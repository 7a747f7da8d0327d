"""The functions in the C header that name an enumeration's value, for programs that print them."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from .abi import MatmulType, QuantizationType, TensorFormat, TensorType

_SHORT = {"FLOAT32": "FP32", "FLOAT16": "FP16", "BFLOAT16": "BF16", "AFFINE_ASYMMETRIC": "AFFINE"}
"""As the logs of vendors' programs call them; they call others by the end of the symbol."""

_UNKNOWN = "UNKNOW"
"""So spelled in the vendor's headers; a program's output is compared with a board's."""


def functions() -> Iterator[str]:
    """The C text of each function."""
    yield _function("get_type_string", "rknn_tensor_type", TensorType)
    yield _function("get_qnt_type_string", "rknn_tensor_qnt_type", QuantizationType)
    yield _function("get_format_string", "rknn_tensor_format", TensorFormat)
    yield _function("get_matmul_type_string", "rknn_matmul_type", MatmulType)


def _function(name: str, type_name: str, members: type[enum.IntEnum]) -> str:
    cases = [f'  case {m.value}: return "{_SHORT.get(m.name, m.name)}";' for m in members]
    return "\n".join(
        (
            f"static inline const char *{name}({type_name} value) {{",
            "  switch ((int)value) {",
            *cases,
            f'  default: return "{_UNKNOWN}";',
            "  }",
            "}",
        )
    )
