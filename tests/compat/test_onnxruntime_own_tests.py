"""ONNX Runtime's own tests with anynpu's names put in: the table of docs/onnxruntime.md.

They aren't part of this repository, nor of ONNX Runtime's package. A folder
(``$ANYNPU_ONNXRUNTIME_TESTS``) has ``onnxruntime_test_python.py``, that of its bindings,
``onnxruntime_test_python_iobinding.py``, and ``helper.py`` of its sources (onnxruntime/test/python,
of release 1.21, as in Debian's source package). The networks that they
load are in the package, or small enough to be made here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

GIVEN = os.environ.get("ANYNPU_ONNXRUNTIME_TESTS")
PAGE = (Path(__file__).parents[2] / "docs" / "onnxruntime.md").read_text()
SECTION = PAGE.partition("\n## Its own tests\n")[2]
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", SECTION, re.MULTILINE))
TESTS = "onnxruntime_test_python.py"
BINDINGS = "onnxruntime_test_python_iobinding.py"
PUT_IN = """
import sys, types, onnx, onnxruntime, anynpu
types_of_numpy = {
    kind: types.SimpleNamespace(np_dtype=onnx.helper.tensor_dtype_to_np_dtype(kind))
    for kind in onnx.TensorProto.DataType.values() if kind
}
sys.modules["onnx.mapping"] = types.ModuleType("onnx.mapping")  # which newer ones don't have
sys.modules["onnx.mapping"].TENSOR_TYPE_MAP = types_of_numpy
for name in dir(anynpu):
    if not name.startswith("_") and callable(getattr(onnxruntime, name, None)):
        setattr(onnxruntime, name, getattr(anynpu, name))
"""
SIZES = {"float": TensorProto.FLOAT, "bool": TensorProto.BOOL, "string": TensorProto.STRING}
NETWORKS = {
    "matmul_1": "agraph (float[3,2] X) => (float[3,1] Y) <float[2,1] W = {1,2}> "
    "{ Y = MatMul(X,W) }",
    "matmul_2": "agraph (float[None,2] X) => (float[None,1] Y) <float[2,1] W = {1,2}> "
    "{ Y = MatMul(X,W) }",
    "abs_free_dimensions": "agraph (float[Dim1,Dim2,5] x) => (float[Dim1,Dim2,5] y) { y = Abs(x) }",
    "sequence_length": "agraph (seq(float[m,n]) X) => (int64 Y) { Y = SequenceLength(X) }",
    "sequence_construct": "agraph (int64[2,3] tensor1, int64[2,3] tensor2) => "
    "(seq(int64[2,3]) output_sequence) { output_sequence = SequenceConstruct(tensor1, tensor2) }",
    "sequence_insert": "agraph (seq(int64[2,3]) input_seq, int64[2,3] tensor) => "
    "(seq(int64[2,3]) output_sequence) { output_sequence = SequenceInsert(input_seq, tensor) }",
    "identity_opt": "agraph (optional(seq(float[5])) x) => (optional(seq(float[5])) y) "
    "{ y = Identity(x) }",
}
COUNTED = ("DATA_BATCH", "DATA_CHANNEL")


def _write_networks(folder: Path) -> None:
    folder.mkdir()
    for each in (Path(onnxruntime.__file__).parent / "datasets").glob("*.onnx"):
        shutil.copy(each, folder)
    for name, graph in NETWORKS.items():
        made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 16]> {graph}')
        if name == "abs_free_dimensions":
            sizes = made.graph.input[0].type.tensor_type.shape.dim
            for size, count in zip(sizes, (*COUNTED, ""), strict=True):
                size.denotation = count
        onnx.save(made, folder / f"{name}.onnx")
    # Names with colons, which the text form of ONNX doesn't have.
    for name, kind, operator, inputs in (
        ("logicaland", "bool", "And", ["input1:0", "input:0"]),
        ("identity_string", "string", "Identity", ["input:0"]),
    ):
        node = helper.make_node(operator, inputs, ["output:0"])
        values = [
            helper.make_tensor_value_info(each, SIZES[kind], [2, 2])
            for each in (*inputs, "output:0")
        ]
        graph = helper.make_graph([node], name, values[:-1], values[-1:])
        opsets = [helper.make_opsetid("", 13)]
        onnx.save(
            helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / f"{name}.onnx"
        )


def test_the_table_says_what_passes(tmp_path: Path) -> None:
    if not GIVEN:
        pytest.skip("$ANYNPU_ONNXRUNTIME_TESTS isn't set: this module's docstring says what it is")
    for name in (TESTS, BINDINGS, "helper.py"):
        shutil.copy(Path(GIVEN) / name, tmp_path)
    (tmp_path / "conftest.py").write_text(PUT_IN)
    _write_networks(tmp_path / "testdata")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:cacheprovider"]
    bindings = (tmp_path / BINDINGS).read_text()
    command += [
        f"{BINDINGS}::TestIOBinding::{name}"
        if f"def {name}(" in bindings
        else f"{TESTS}::TestInferenceSession::{name}"
        for name in ROWS
    ]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "ANYNPU_DEVICE": "soft"}, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    passed = set(re.findall(r"^PASSED .*::(\w+)", ran.stdout, re.MULTILINE))
    failed = set(re.findall(r"^(?:SUB)?FAILED.*::(\w+)", ran.stdout, re.MULTILINE))
    passed -= failed  # those of which parts failed
    assert passed | failed == set(ROWS), ran.stdout[-2000:]
    assert passed == {name for name, state in ROWS.items() if state == "passes"}
