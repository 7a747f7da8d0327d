"""`Model` and `Context` on one file: what they tell of it, and what they compute."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anynpu
from anynpu.rknn import abi
from anynpu.rknn.context import Context


def describe(path: str) -> dict[str, Any]:
    """The tensors of a file."""
    with anynpu.Model(path) as model:
        return {
            "inputs": [str(attr) for attr in model.input_attrs],
            "outputs": [str(attr) for attr in model.output_attrs],
            "shapes": model.output_shapes,
        }


def inputs_of(model: anynpu.Model, dtype: str, seed: int) -> list[NDArray[Any]]:
    """Numbers that a dtype has exactly, for each input."""
    random = np.random.default_rng(seed)
    return [random.integers(0, 100, attr.shape).astype(dtype) for attr in model.input_attrs]


def outputs_of(model: anynpu.Model) -> dict[str, Any]:
    """Every output, as the device has it and as float32."""
    return {
        f"{kind}{index}": np.array(read(index))
        for index in range(len(model.output_attrs))
        for kind, read in (("raw", model.output_raw), ("real", model.output_f32))
    }


def run(path: str, dtype: str, seed: int = 7) -> dict[str, Any]:
    """All outputs of one run."""
    with anynpu.Model(path) as model:
        model.run(*inputs_of(model, dtype, seed))
        return outputs_of(model)


def run_duplicates(path: str) -> dict[str, Any]:
    """A model and its duplicate with inputs of their own, in turns; the source is closed first."""
    source = anynpu.Model(path)
    copy = source.dup()
    source.run(*inputs_of(source, "float32", 1))
    copy.run(*inputs_of(copy, "float32", 2))
    first, second = outputs_of(source), outputs_of(copy)
    source.close()
    copy.run(*inputs_of(copy, "float32", 3))
    third = outputs_of(copy)
    copy.close()
    return {
        f"{name} {place}": value
        for place, found in enumerate((first, second, third))
        for name, value in found.items()
    }


def run_planar(path: str) -> dict[str, Any]:
    """An image given NCHW, as most models' sources have it."""
    with anynpu.Model(path) as model:
        packed = inputs_of(model, "float32", 5)
        model.run(*(array.transpose(0, 3, 1, 2) for array in packed))
        return outputs_of(model)


def in_memory_from_elsewhere(path: str) -> dict[str, Any]:
    """Input and output in parts of one descriptor that the program made; the output's bytes."""
    with Context(path) as context:
        source = context.attribute(abi.Query.NATIVE_INPUT_ATTR, 0)
        target = context.attribute(abi.Query.NATIVE_OUTPUT_ATTR, 0)
        source.pass_through = 1
        space = 1 << 16
        descriptor = os.memfd_create("frames")
        os.ftruncate(descriptor, 2 * space)
        with mmap.mmap(descriptor, 2 * space) as view:
            shared = np.frombuffer(view, np.uint8)
            shared[: source.size] = np.arange(source.size) % 90
            address = shared.__array_interface__["data"][0]
            memories = [
                context.memory_from_fd(descriptor, space, offset, address) for offset in (0, space)
            ]
            context.set_io_memory(memories[0], source)
            context.set_io_memory(memories[1], target)
            context.run()
            found = shared[space : space + target.size].copy()
            del shared
        os.close(descriptor)
        return {"output": found}


def with_memory_of_its_own(path: str) -> dict[str, Any]:
    """Weights and internal memory that the program allocates."""
    with Context(path, flags=abi.InitFlag.MEM_ALLOC_OUTSIDE) as context:
        sizes = context.memory_size()
        weights, internal = (context.create_memory(n) for n in (sizes.weights, sizes.internal))
        context.set_weight_memory(weights)
        context.set_internal_memory(internal)
        info = context.inputs[0]
        values = np.random.default_rng(8).integers(0, 50, info.shape).astype(np.float32)
        context.set_inputs([values], [abi.TensorFormat[info.layout.name]])
        context.run()
        output = np.empty(context.outputs[0].shape, np.float32)
        context.get_outputs([output], as_float=True)
        return {"output": output}


def refused(path: str) -> dict[str, Any]:
    """Opening a file that this chip can't run raises."""
    with anynpu.Model(path) as model:
        return {"inputs": model.input_attrs}
