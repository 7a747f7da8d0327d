"""Others' programs for rknn-toolkit-lite2, as they are, on anynpu: `compat.install("rknnlite")`.

They aren't part of this repository. A folder (``$ANYNPU_PROGRAMS``, or ``programs`` beside the
repository) has a copy of each under these names:

    leafqycc/rknnpool.py           github.com/leafqycc/rknn-multi-threaded: rknnpool.py
    immich/rknnpool.py             github.com/immich-app/immich:
                                   machine-learning/immich_ml/sessions/rknn/rknnpool.py
    frigate/detection_runners.py   github.com/blakeblackshear/frigate: frigate/detectors/
    ultralytics/rknn.py            github.com/ultralytics/ultralytics: ultralytics/nn/backends/
    rkvoice/bench_rknn.py          github.com/suharvest/rkvoice-stream: models/common/benchmark/

What they import of their own packages is stood in for here, by the names that they use.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anynpu import compat
from anynpu.soft.build import BuildOptions, build_file

from .. import models

PROGRAMS = Path(
    os.environ.get("ANYNPU_PROGRAMS") or Path(__file__).resolve().parents[3] / "programs"
)
PIXELS = np.random.default_rng(0).integers(0, 255, (1, 4, 5, 3)).astype(np.uint8)


@pytest.fixture(autouse=True)
def _own_modules() -> Iterator[None]:
    """What a test imports under others' names goes with it."""
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if not name.startswith("anynpu."):
            del sys.modules[name]


@pytest.fixture
def model(tmp_path: Path) -> str:
    options = BuildOptions(custom_string='{"dims": [{}]}')
    build_file(models.add_one(), tmp_path / "model.rknn", options)
    return str(tmp_path / "model.rknn")


def program(name: str, **needs: dict[str, Any]) -> ModuleType:
    """A program's module, after its own package's modules (dots as __) were stood in for."""
    path = PROGRAMS / f"{name}.py"
    if not path.is_file():
        pytest.skip(f"{path} is not there: this module's docstring says where it is from")
    for need, members in needs.items():
        module = ModuleType(need.replace("__", "."))
        module.__dict__.update(members)
        module.__path__ = []
        sys.modules[module.__name__] = module
    compat.install("rknnlite")
    package = name.partition("/")[0] if name.startswith("ultralytics") else ""
    spec = importlib.util.spec_from_file_location(
        f"{package}.nn.backends.rknn" if package else path.stem, path
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def expected(pixels: np.ndarray) -> np.ndarray:
    result: np.ndarray = (pixels.astype(np.float16) + np.float16(1)).transpose(0, 3, 1, 2)
    return result


def test_leafqycc_s_pool(model: str) -> None:
    pools = program("leafqycc/rknnpool")
    pool = pools.rknnPoolExecutor(model, 3, lambda rknn, frame: rknn.inference(inputs=[frame])[0])
    for _ in range(5):
        pool.put(PIXELS)
    for _ in range(5):
        output, is_there = pool.get()
        assert is_there
        np.testing.assert_array_equal(output, expected(PIXELS))
    assert pool.get() == (None, False)
    pool.release()


def test_immich_s_pool(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = SimpleNamespace(warning=lambda *_: None, debug=lambda *_: None)
    pools = program(
        "immich/rknnpool",
        immich_ml={},
        immich_ml__config={"log": quiet},
        immich_ml__models={},
        immich_ml__models__constants={
            "RKNN_COREMASK_SUPPORTED_SOCS": ["rk3576", "rk3588"],
            "RKNN_SUPPORTED_SOCS": ["rk3566", "rk3568", "rk3576", "rk3588"],
        },
        immich_ml__schemas={"ModelTensor": np.ndarray},
    )
    tree = tmp_path / "compatible"
    tree.write_text("radxa,rock-5b\0rockchip,rk3588\0")
    monkeypatch.setattr(pools, "soc_name", pools.get_soc(tree))
    monkeypatch.setattr(pools, "is_available", True)

    def infer(rknn: Any, inputs: list[np.ndarray], data_format: str | None) -> list[np.ndarray]:
        outputs: list[np.ndarray] = rknn.inference(inputs=inputs, data_format=data_format)
        return outputs

    def infer_natively(
        rknn: Any, inputs: list[np.ndarray], data_format: str | None
    ) -> list[np.ndarray]:
        rknn.rknn_runtime.set_inputs(inputs, None, data_format)
        rknn.rknn_runtime.run(False)
        outputs: list[np.ndarray] = pools.native_outputs(rknn)
        return outputs

    for function, dtype in ((infer, np.float32), (infer_natively, np.float16)):
        pool = pools.RknnPoolExecutor(model, 2, function)
        assert [(node.name, node.shape) for node in pool.inputs] == [("x", (1, 4, 5, 3))]
        assert [node.name for node in pool.outputs] == ["y"]
        assert pool.custom_string == '{"dims": [{}]}'
        for given, data_format in ((PIXELS, "nhwc"), (PIXELS.transpose(0, 3, 1, 2), "nchw")):
            (output,) = pool.run([np.ascontiguousarray(given)], data_format)
            assert output.dtype == dtype
            np.testing.assert_array_equal(output, expected(PIXELS))
        pool.release()


def test_frigate_s_runner(model: str) -> None:
    runners = program(
        "frigate/detection_runners",
        frigate={},
        frigate__util={},
        frigate__util__model={"get_ort_providers": None},
        frigate__util__rknn_converter={"auto_convert_model": None, "is_rknn_compatible": None},
    )
    runner = runners.RKNNModelRunner(model)
    assert runner.get_input_names() == ["input"]
    (output,) = runner.run({"input": PIXELS})
    np.testing.assert_array_equal(output, expected(PIXELS))


def test_ultralytics_backend(model: str) -> None:
    class Base:
        """As much of the backend's own base as it asks for: the file's metadata are beside it."""

        metadata: dict[str, Any] = {}
        task, end2end = None, False

        def read_metadata(self, file: Path) -> dict[str, Any]:
            assert file.suffix == ".rknn"
            return {"task": "detect"}

        def apply_metadata(self, metadata: dict[str, Any]) -> None:
            self.metadata, self.task = metadata, metadata["task"]

    class Image(SimpleNamespace):
        """As much of a torch.Tensor as the backend asks for."""

        def cpu(self) -> Image:
            return self

        def numpy(self) -> np.ndarray:
            values: np.ndarray = self.values
            return values

    backends = program(
        "ultralytics/rknn",
        torch={"Tensor": Image},
        ultralytics={},
        ultralytics__nn={},
        ultralytics__nn__backends={},
        ultralytics__nn__backends__base={"BaseBackend": Base},
        ultralytics__utils={"LOGGER": SimpleNamespace(info=lambda *_: None)},
        ultralytics__utils__checks={
            "check_requirements": lambda *_: True, "is_rockchip": lambda: True,
        },
    )  # fmt: skip
    backend = backends.RKNNBackend()
    backend.load_model(model)
    shares = PIXELS.astype(np.float64) / 255
    (output,) = backend.forward(Image(values=shares, shape=shares.shape))
    np.testing.assert_array_equal(output, expected((shares * 255).astype(np.uint8)))


def test_rkvoice_s_benchmark(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = program("rkvoice/bench_rknn")
    found = benchmark.benchmark_model(model, [PIXELS], warmup=1, runs=2)
    assert found["model"] == "model"
    assert 0 < found["min_ms"] <= found["avg_ms"] <= found["max_ms"]
    assert "shape=(1, 3, 4, 5) dtype=float32" in capsys.readouterr().out
