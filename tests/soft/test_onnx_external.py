"""ONNX models whose tensors lie in files of their own: beside the model, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import anynpu
from anynpu.soft.build import BuildOptions, build_file
from anynpu.soft.engines import ModelSource, load
from anynpu.soft.engines.onnx.external import external_tensors

VALUES = np.arange(16, dtype=np.float32)


def external(location: str, **entries: object) -> TensorProto:
    """(1, 16) floats that lie elsewhere."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1, 16])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def model(tensor: TensorProto) -> ModelProto:
    """X + w."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [tensor]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, with a file inside and one outside."""
    inside = tmp_path / "model"
    (inside / "deeper").mkdir(parents=True)
    (inside / "w.bin").write_bytes(b"head" + VALUES.tobytes() + b"tail")
    (inside / "deeper" / "w.bin").write_bytes(VALUES.tobytes())
    (tmp_path / "secret.bin").write_bytes(VALUES.tobytes() + b"top secret")
    return inside


def written(folder: Path, location: str, **entries: object) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model(external(location, **entries)).SerializeToString())
    return path


def sums(path: Path | bytes) -> list[float]:
    with anynpu.InferenceSession(path, provider_options={"library": "soft"}) as session:
        (found,) = session.run(None, {"x": np.zeros((1, 16), np.float32)})
        return list(found.reshape(-1))


@pytest.mark.parametrize(
    ("location", "entries"),
    [
        ("w.bin", {"offset": 4, "length": 64}),
        ("w.bin", {"offset": 4}),
        ("deeper/w.bin", {}),
        ("./deeper/w.bin", {"checksum": "ignored"}),
    ],
)
def test_data_beside_the_model_whatever_the_current_folder_is(
    folder: Path, location: str, entries: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(folder, location, **entries)
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "w.bin").write_bytes(bytes(200))
    monkeypatch.chdir(elsewhere)
    assert sums(path) == list(VALUES)
    monkeypatch.chdir(folder)
    assert sums(Path("net.onnx")) == list(VALUES)


@pytest.mark.parametrize(
    ("location", "entries", "problem"),
    [
        ("../secret.bin", {}, "own folder"),
        ("deeper/../../secret.bin", {}, "own folder"),
        ("/dev/zero", {}, "own folder"),
        ("", {}, "own folder"),
        ("link.bin", {}, "leads out of"),
        ("linked/secret.bin", {}, "leads out of"),
        ("fifo", {}, "is not a file"),
        ("deeper", {}, "is not a file"),
        ("w\0.bin", {}, "own folder"),
        ("missing.bin", {}, "can't be read"),
        ("loop", {}, "can't be read"),
        ("w.bin", {"offset": 9}, "64 bytes at 9 of 72"),
        ("w.bin", {"offset": -4}, "has the offset '-4'"),
        ("w.bin", {"offset": "9" * 30}, "has the offset"),
        ("w.bin", {"length": 60}, "takes 64 bytes by its shape, not 60"),
    ],
)
def test_what_leads_elsewhere_is_refused(
    folder: Path, location: str, entries: dict[str, object], problem: str
) -> None:
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "linked").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    path = written(folder, location, **entries)
    with pytest.raises(anynpu.ModelError, match=problem):
        load(ModelSource.of(path))
    with pytest.raises(anynpu.ModelError, match=problem):
        build_file(path, folder / "built.rknn", BuildOptions())


def test_links_within_the_folder_and_the_cache_of_a_hub(folder: Path) -> None:
    (folder / "link.bin").symlink_to("deeper/w.bin")
    path = written(folder, "link.bin")
    assert sums(path) == list(VALUES)
    snapshot = folder.parent / "snapshot"
    snapshot.mkdir()
    (snapshot / "net.onnx").symlink_to(path)
    (snapshot / "link.bin").symlink_to(folder / "link.bin")
    assert sums(snapshot / "net.onnx") == list(VALUES)


def test_bytes_have_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(folder, "deeper/w.bin")
    monkeypatch.chdir(folder)
    with pytest.raises(anynpu.ModelError, match="a model without a folder"):
        load(ModelSource.of(path.read_bytes()))
    target = folder / "built.rknn"
    build_file(path, target, BuildOptions())
    assert b"deeper/w.bin" not in target.read_bytes()
    assert sums(target) == list(VALUES)


def test_tensors_that_say_too_much_are_refused_before_anything_is_read(folder: Path) -> None:
    tensor = external("w.bin")
    tensor.dims[:] = [1 << 31, 1 << 31]
    (folder / "net.onnx").write_bytes(model(tensor).SerializeToString())
    with pytest.raises(anynpu.ModelError, match="more than 2147483647 bytes"):
        load(ModelSource.of(folder / "net.onnx"))
    tensor.dims[:] = [-1, 16]
    (folder / "net.onnx").write_bytes(model(tensor).SerializeToString())
    with pytest.raises(anynpu.ModelError, match=r"has the shape \[-1, 16\]"):
        load(ModelSource.of(folder / "net.onnx"))


def test_tensors_are_found_however_deep() -> None:
    tensor = external("w.bin")
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "i", [], [])
    inner.initializer.append(tensor)
    inner.sparse_initializer.add().values.CopyFrom(tensor)
    made = model(tensor)
    made.graph.node.append(helper.make_node("If", ["b"], ["z"], then_branch=inner))
    made.graph.node[-1].attribute.add(name="more").tensors.append(tensor)
    made.functions.add(name="f").node.append(helper.make_node("Constant", [], ["c"], value=tensor))
    made.training_info.add().algorithm.initializer.append(tensor)
    assert len(list(external_tensors(made))) == 7


def test_what_is_read_is_what_onnx_would_read(folder: Path) -> None:
    path = written(folder, "w.bin", offset=4, length=64)
    loaded = onnx.load(path)
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(loaded.graph.initializer[0]).reshape(-1), VALUES
    )
