"""`Model` and bindings on one file: inputs and outputs in memory that the NPU reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anynpu

from .sessions import plain_run, random_feed


def _inputs(model: anynpu.Model, seed: int, dtype: str) -> list[NDArray[Any]]:
    random = np.random.default_rng(seed)
    return [random.integers(0, 100, a.shape).astype(dtype) for a in model.input_attrs]


def _expected(path: str, arrays: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """What the general API gives, with types that the library converts from."""
    are_bytes = all(array.dtype == np.uint8 for array in arrays)
    return plain_run(path, [a if are_bytes else a.astype(np.float32) for a in arrays])[0]


def of_mixed_types(path: str, dtypes: Sequence[str]) -> dict[str, Any]:
    """Arrays of one dtype after another in one model, and in a duplicate that was made between."""
    with anynpu.Model(path) as model:
        arrays = [_inputs(model, number, dtype) for number, dtype in enumerate(dtypes)]
        found = []
        model.run(*arrays[0])
        shared = model.output_raw(0)
        duplicate = model.dup()
        results, raws, seen = [], [], []
        for each in arrays:
            model.run(*each)
            results.append(model.output_f32(0))
            raws.append(np.array(model.output_raw(0)))
            seen.append(np.array(shared))
        for each in arrays:
            duplicate.run(*each)
            found.append(duplicate.output_f32(0))
        duplicate.close()
        return {
            "expected": np.stack([_expected(path, each) for each in arrays]),
            "run": np.stack(results),
            "of a duplicate": np.stack(found),
            "raw": np.stack(raws),
            "raw, by the first run's array": np.stack(seen),
        }


def of_every_shape(path: str) -> dict[str, Any]:
    """A dynamic file: as it is opened, and in each of its shapes, against a session's."""
    found: dict[str, Any] = {}
    with anynpu.Model(path) as model, anynpu.InferenceSession(path) as session:
        (listed,) = model.dynamic_shapes()
        shapes = [model.input_attrs[0].shape, *listed, *reversed(listed)]
        for number, shape in enumerate(shapes):
            if number:
                model.set_shapes(shape)
            values = np.random.default_rng(number).uniform(-2, 2, shape).astype(np.float32)
            model.run(values)
            found[f"model {number} {shape}"] = model.output_f32(0)
            found[f"session {number} {shape}"] = session.run(None, values.transpose(0, 3, 1, 2))[0]
    return found


def beyond_the_range(path: str, dtype: str) -> dict[str, Any]:
    """Values far beyond an input's range, and the same at its ends."""
    with anynpu.Model(path) as model:
        (info,) = model.input_attrs
        bounds = np.iinfo(info.dtype.numpy.name)
        low, high = ((int(b) - info.zero_point) * info.scale for b in (bounds.min, bounds.max))
        values = np.random.default_rng(5).integers(0, 255, info.shape).astype(dtype)
        limited = np.clip(values.astype(np.float32), np.float32(low), np.float32(high))
        model.run(values)
        return {"run": model.output_f32(0), "expected": plain_run(path, [limited])[0]}


def bound(path: str, dtypes: Sequence[str]) -> dict[str, Any]:
    """A session's binding, whose inputs are of one dtype after another."""
    with anynpu.InferenceSession(path) as session:
        session.run(None, random_feed(session, 99, "uint8"))
        binding = session.io_binding()
        results, expected = [], []
        for number, dtype in enumerate(dtypes):
            feed = random_feed(session, number, dtype)
            for name, array in feed.items():
                binding.bind_cpu_input(name, array)
            session.run_with_iobinding(binding)
            results.append(binding.copy_outputs_to_cpu()[0])
            pixels = [a.transpose(0, 2, 3, 1) if a.ndim == 4 else a for a in feed.values()]
            expected.append(_expected(path, pixels))
        return {"expected": np.stack(expected), "run": np.stack(results)}


def on_all_cores(path: str) -> dict[str, Any]:
    """Several cores for one task, by each name for them."""
    found: dict[str, Any] = {}
    for mode in ("all", "0,1,2", "0,1", "1"):
        with anynpu.InferenceSession(path, provider_options={"tp_mode": mode}) as session:
            feed = random_feed(session, 1, "float32")
            found[mode] = session.run(None, feed)[0]
            pixels = [a.transpose(0, 2, 3, 1) if a.ndim == 4 else a for a in feed.values()]
            found["expected"] = _expected(path, pixels)
    return found


def layers(path: str) -> dict[str, Any]:
    """The runtime's table of layers after a run."""
    with anynpu.Model(path, profile=True) as model:
        model.run(*_inputs(model, 1, "float32"))
        table = model.perf()
        return {
            "operators": np.array([row.op_type for row in table]),
            "names": np.array([row.name for row in table]),
            "times": np.array([row.microseconds for row in table]),
            "text": table.text,
        }
