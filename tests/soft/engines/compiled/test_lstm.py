"""LSTM nodes of several steps, against ONNX's definition in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.engines.compiled.lstm import is_recurrent, prepare_lstm
from anynpu.soft.formats.rknn.model import CompiledModel, Device, Node, TensorKind, TensorLayout

from .parts import cpu_node, model_of, plain

STEPS, CHANNELS, HIDDEN = 5, 16, 16
OPTIONS = {"direction": "forward", "hidden_size": HIDDEN, "sequence_length": STEPS}


def node_of(**options: Any) -> Node:
    inputs, outputs = tuple(range(11)), (11, -1, 12)
    made = cpu_node("exLSTM", inputs, outputs, options={**OPTIONS, **options})
    return replace(made, device=Device.NPU)


def parameters() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    zeros = np.zeros(HIDDEN, np.float16)
    bias = np.zeros(8 * HIDDEN, np.float32)
    bias[: 4 * HIDDEN] = generator.normal(0, 0.3, 4 * HIDDEN)
    return {
        "w": generator.normal(0, 0.3, (4 * HIDDEN, CHANNELS)).astype(np.float16),
        "r": generator.normal(0, 0.3, (4 * HIDDEN, HIDDEN)).astype(np.float16),
        "b": bias,
        "lens": zeros[:1],
        "h": generator.normal(0, 0.5, HIDDEN).astype(np.float16),
        "c": generator.normal(0, 0.5, HIDDEN).astype(np.float16),
        "p": zeros,
        "dropout": zeros,
        "projection": zeros,
        "projection bias": zeros,
    }


def model_with(given: dict[str, np.ndarray], x_dtype: Any = np.float16) -> CompiledModel:
    groups = (4 * HIDDEN // 16, 1, 1, 1, 16, CHANNELS)
    weight: dict[str, Any] = {"layout": TensorLayout.WEIGHT, "kind": TensorKind.WEIGHT}
    constant: dict[str, Any] = {"kind": TensorKind.COMPILER_CONSTANT}
    state = (1, 1, HIDDEN)
    tensors = [
        plain("x", (STEPS, 1, CHANNELS), x_dtype),
        plain("w", (HIDDEN, CHANNELS, 1, 1), native_shape=groups, **weight),
        plain("r", (HIDDEN, HIDDEN, 1, 1), native_shape=groups, **weight),
        plain("b", (8 * HIDDEN,), np.float32, **constant),
        plain("lens", (1,), **constant),
        plain("h", state, **constant),
        plain("c", state, **constant),
        *(plain(name, (HIDDEN,), **constant) for name in ("p", "dropout")),
        *(plain(name, (HIDDEN,), **constant) for name in ("projection", "projection bias")),
        plain("y", (STEPS, 1, 1, HIDDEN), offset=4096),
        plain("last c", state, offset=8192),
    ]
    sizes = {tensor.name: tensor for tensor in tensors}
    tensors = [
        replace(tensor, size=given[tensor.name].nbytes) if tensor.name in given else tensor
        for tensor in sizes.values()
    ]
    return model_of(tensors, None, given)


def reference(x: np.ndarray, given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Every h, and the last c; ONNX's gates are input, output, forget, cell."""
    w, r, b, h, c = (given[name].astype(np.float64) for name in ("w", "r", "b", "h", "c"))
    found = []
    for step in x.astype(np.float64):
        gates = w @ step + r @ h + b[: 4 * HIDDEN]
        i, o, f = (1 / (1 + np.exp(-gates[k * HIDDEN :][:HIDDEN])) for k in range(3))
        c = f * c + i * np.tanh(gates[3 * HIDDEN :])
        h = o * np.tanh(c)
        found.append(h)
    return np.array(found), c


def test_the_steps_and_the_last_state() -> None:
    given = parameters()
    model = model_with(given)
    graph = model.graphs[0]
    x = np.random.default_rng(1).normal(0, 1, (STEPS, CHANNELS)).astype(np.float16)
    memory = np.zeros(1 << 14, np.uint8)
    TensorBuffer(memory, graph.tensors[0]).write(x.reshape(STEPS, 1, CHANNELS))
    prepare_lstm(model, graph, node_of()).bind(memory)()
    every, last = reference(x, given)
    for index, expected in ((11, every), (12, last)):
        tensor = graph.tensors[index]
        read = np.empty(tensor.shape, np.float32)
        TensorBuffer(memory, tensor).read(read)
        np.testing.assert_allclose(read.ravel(), expected.ravel(), atol=2e-3)


def test_one_step_is_left_to_the_tasks() -> None:
    assert is_recurrent(node_of())
    assert not is_recurrent(node_of(sequence_length=1))
    assert not is_recurrent(cpu_node("LSTM", (), (), options=OPTIONS))


@pytest.mark.parametrize(
    ("options", "changes", "problem"),
    [
        ({"direction": "bidirectional"}, {}, "is bidirectional"),
        ({"hidden_size": 0}, {}, "with 0 values"),
        ({"hidden_size": 8}, {}, "has weights 'w' in memory as"),
        ({"sequence_length": 4}, {}, "has an input of shape"),
        ({}, {"dropout": np.ones(HIDDEN, np.float16)}, "uses dropout"),
        ({}, {"b": np.zeros(3, np.float32)}, "bytes of 'b'"),
    ],
)
def test_forms_that_are_not_known(
    options: dict[str, Any], changes: dict[str, np.ndarray], problem: str
) -> None:
    model = model_with(parameters() | changes)
    with pytest.raises(anynpu.ModelError, match=problem):
        prepare_lstm(model, model.graphs[0], node_of(**options))


def test_int8_is_refused() -> None:
    model = model_with(parameters(), np.int8)
    with pytest.raises(anynpu.ModelError, match="has x of type INT8"):
        prepare_lstm(model, model.graphs[0], node_of())
