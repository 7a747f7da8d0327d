"""One side of a comparison: a model's outputs for a feed, and what computed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import backends
from ..errors import ModelError
from . import device
from .feeds import Feed

_OURS = "anynpu."


@dataclass(frozen=True)
class Side:
    """Outputs by name, in the model's order, as real values; (scale, zero point) of some."""

    about: str
    outputs: dict[str, NDArray[Any]]
    quantization: dict[str, tuple[float, int]]


def open_side(model: str, library: str | None, feed: Feed, partner: str | None = None) -> Side:
    """Compute a side; a source in ONNX gets the normalisation of its `partner`.

    Raises `ModelError` where a file can't be read or its inputs aren't those of the feed.
    """
    if model.endswith(".npz"):
        with np.load(model, allow_pickle=False) as archive:
            return Side("outputs from a file", {n: archive[n] for n in archive.files}, {})
    if partner is not None and is_source(model):
        return _by_onnx_runtime(model, normalized(feed, partner))
    return _by_session(model, library, feed)


def is_source(model: str) -> bool:
    """Whether a file is plain ONNX, without what `anynpu build` writes into it."""
    if not model.endswith(".onnx"):
        return False
    import onnx

    try:
        properties = onnx.load(model, load_external_data=False).metadata_props
    except Exception as error:  # protobuf's exception depends on its build
        raise ModelError(f"{model} can't be read as ONNX: {error}") from None
    return not any(entry.key.startswith(_OURS) for entry in properties)


def normalized(feed: Feed, model: str) -> Feed:
    """The feed as a model's own normalisation makes it, for its source, in float32."""
    names = list(feed)
    found = backends.choose(model).normalizations(model, names)
    return {
        name: _normalize(array, normalization)
        for (name, array), normalization in zip(feed.items(), found, strict=True)
    }


def _normalize(array: NDArray[Any], normalization: Any) -> NDArray[Any]:
    if normalization is None or array.ndim != 4:
        return array
    mean, std = (
        np.asarray(values, np.float32)[: array.shape[1], None, None]
        for values in (normalization.mean, normalization.std)
    )
    return np.asarray((array.astype(np.float32) - mean) / std, np.float32)


def _by_session(model: str, library: str | None, feed: Feed) -> Side:
    from .. import InferenceSession

    with InferenceSession(model, provider_options={"library": library} if library else {}) as it:
        args = it.get_outputs()
        results = it.run(None, _as_fed(feed, [arg.name for arg in it.get_inputs()], model))
        outputs = {arg.name: array for arg, array in zip(args, results, strict=True)}
        quantization = {
            arg.name: (arg.scale, arg.zero_point)
            for arg in args
            if arg.model_dtype.numpy.kind in "iu" and arg.scale and arg.dtype.numpy.kind == "f"
        }
        return Side(str(device.device_of(it)), outputs, quantization)


def _by_onnx_runtime(model: str, feed: Feed) -> Side:
    return Side("ONNX Runtime, in float32", run_source(model, model, feed), {})


def run_source(
    source: str,
    model: str | bytes,
    feed: Feed,
    wanted: list[str] | None = None,
    options: Any = None,
) -> Feed:
    """What ONNX Runtime computes of a feed, by name: the `wanted` outputs, or all of them.

    `model` is the file `source`, or what was made of it. Raises `ModelError`.
    """
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        inputs = {arg.name: arg.type for arg in session.get_inputs()}
        fitted = _as_fed(feed, list(inputs), source)
        for arg in session.get_inputs():
            _check_shape(source, arg.name, arg.shape, fitted[arg.name].shape)
        typed = {name: _as_typed(array, inputs[name]) for name, array in fitted.items()}
        names = [arg.name for arg in session.get_outputs()] if wanted is None else wanted
        return dict(zip(names, session.run(names, typed), strict=True))
    except ModelError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no base of their own
        raise ModelError(f"ONNX Runtime can't run {source}: {error}") from None


def run_inside_source(source: str, feed: Feed, wanted: Sequence[str] | None = None) -> Feed:
    """The same for tensors between nodes, or all of them; nodes aren't joined for it."""
    import onnx
    import onnxruntime

    model = onnx.load(source)
    if wanted is None:
        wanted = [name for node in model.graph.node for name in node.output if name]
    if not wanted:
        return {}
    outputs = {info.name for info in model.graph.output}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in wanted if name not in outputs
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return run_source(source, model.SerializeToString(), feed, list(wanted), options)


def _check_shape(source: str, name: str, wanted: list[Any], found: tuple[int, ...]) -> None:
    """Raise `ModelError` for a feed of other sizes than a source fixes."""
    fits = len(found) == len(wanted) and all(
        not isinstance(size, int) or size == own for size, own in zip(wanted, found, strict=True)
    )
    if not fits:
        raise ModelError(
            f"ONNX Runtime can't run {source}: its input {name!r} has the shape {tuple(wanted)}, "
            f"and the other model's {found}: is it that model's source?"
        )


def _as_typed(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """An array as ONNX Runtime calls an input's type, such as tensor(float)."""
    word = kind[len("tensor(") : -1]
    return array.astype({"float": "float32", "double": "float64"}.get(word, word), copy=False)


def _as_fed(feed: Feed, names: list[str], model: str) -> Feed:
    """The feed under another model's names: the same ones, or in the same order."""
    if set(names) == set(feed):
        return feed
    if len(names) != len(feed):
        raise ModelError(f"{model} takes {names}, the feed has {list(feed)}")
    return dict(zip(names, feed.values(), strict=True))
