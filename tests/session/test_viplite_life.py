"""Sessions on VIPLite through shared libraries, with compiled models, and at the process's end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession, Model, soc
from anynpu.soft.cabi.build import library_folder
from benchmarks.null import VIPLITE_MODEL

from ..shared import NBG_SAMPLES
from ..soft.viplite.client import relu
from ..soft.viplite.test_twin import compiled
from .test_life import PENDING, run_script

SHAPE = (1, 3, 4, 5)
REAL = (np.arange(60, dtype=np.float32).reshape(SHAPE) - 30) / 2
NAMES = ["c3x3_oc16", "lenet", "concat", "add", "convtanh", "dfp_i16/c3x3_oc16", "pcq_i8/dw3x3_32"]


@pytest.fixture
def sample() -> Callable[[str], Path]:
    """A function from a name to a sample's path; skips where it isn't."""

    def find(name: str) -> Path:
        path = NBG_SAMPLES / name
        if not path.is_file():
            pytest.skip(f"{path} is not there")
        return path

    return find


@pytest.mark.parametrize(
    ("chip", "name"),
    [("t527", "libVIPlite.so"), ("a733", "libNBGlinker.so"), ("v853", "libVIPlite.so")],
)
def test_through_the_shared_library(chip: str, name: str) -> None:
    """As a board's: the same answers by dlopen, for every interface."""
    library = library_folder(soc.find_vip(chip)) / name
    options = {"library": library, "workers": 2}
    with InferenceSession(relu(chip), provider_options=options) as session:
        futures = [session.submit(None, {"x": REAL + value}) for value in range(6)]
        for value, future in enumerate(futures):
            np.testing.assert_array_equal(future.result()[0], np.maximum(REAL + value, 0))
        assert session.get_modelmeta().custom_metadata_map["library"] == str(library)
    with Model(relu(chip), library=library) as model:
        model.run(REAL)
        np.testing.assert_array_equal(model.output_f32(0), np.maximum(REAL, 0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chip", ["t527", "a733"])
def test_compiled_models_with_twins(chip: str, name: str, sample: Callable[[str], Path]) -> None:
    """Within three steps of the toolkit's own quantised results, by session and by model."""
    path, twin = sample(f"{name}.{chip}.nb"), sample(f"{Path(name).name}.onnx")
    results = np.load(sample(f"{name}.npz"))
    values = [results[key] for key in results.files if key.startswith("in_")]
    with InferenceSession(path, provider_options={"twin": twin}) as session:
        feed = {
            arg.name: value.reshape(arg.shape)
            for arg, value in zip(session.get_inputs(), values, strict=True)
        }
        (found,) = session.run(None, feed)
        (output,) = session.get_outputs()
    step = output.scale if output.scale != 1 else 0.01
    expected = results["q_out"].reshape(found.shape)
    assert np.abs(found - expected).max() <= 3.01 * step
    with Model(path, twin=twin) as model:
        model.run(*feed.values())
        np.testing.assert_array_equal(model.output_f32(0), found)


def test_a_compiled_model_that_is_not_executed() -> None:
    with pytest.raises(anynpu.InvalidModelError, match=r"layer 'conv' .*\$ANYNPU_TWIN"):
        InferenceSession(compiled())


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del session", "session.close()"])
@pytest.mark.parametrize("device", ["null", "soft"])
def test_leaving_python_with_a_hundred_requests(
    null_vip: Path, device: str, end: str, tmp_path: Path
) -> None:
    """All are finished, in order, and nothing is printed but by the callbacks."""
    file = tmp_path / "model.nb"
    file.write_bytes(VIPLITE_MODEL if device == "null" else relu())
    options = {"library": str(null_vip)} if device == "null" else {}
    result = run_script(
        PENDING.format(model=str(file), options=options, end=end), NULL_DEVICE_CORES="500,500"
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.split() == [str(number) for number in range(100)]
