"""What `InferenceSession.run` costs on a device that computes nothing, over plain ctypes calls.

The calls are those that a run can't do without: an input goes in, it runs, the output comes out in
an array of its own. Real values are quantised and dequantised with NumPy there. The ratio is the
session's time over theirs.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anynpu
from anynpu.viplite import abi
from anynpu.viplite.library import VipliteLibrary, load

from . import null
from .measure import Comparison, compare

_SIZES = (4, 224, 640)
_CLASSES = 1000
_FLUSH, _INVALIDATE = int(abi.BufferOperation.FLUSH), int(abi.BufferOperation.INVALIDATE)


def run(rounds: int) -> Iterator[Comparison]:
    """For pictures of several sizes: uint8 that the device reads, and real values."""
    with tempfile.TemporaryDirectory() as folder:
        for size in _SIZES:
            # A library of its own for each: one that is in use keeps its tensors' sizes.
            here = Path(folder) / str(size)
            here.mkdir()
            yield from _measure(null.build("libNBGlinker.so", here), size, rounds)


def _measure(library: Path, size: int, rounds: int) -> Iterator[Comparison]:
    os.environ["NULL_DEVICE_CORES"] = "0"
    os.environ["NULL_DEVICE_INPUT"] = f"{size},{size},3,1"
    os.environ["NULL_DEVICE_OUTPUT"] = f"{_CLASSES},1"
    raw = np.zeros((1, 3, size, size), np.uint8)
    real = raw.astype(np.float32)
    options = {"library": library, "output_dtype": "model"}
    repeat = 200 if size < 100 else 10
    with anynpu.InferenceSession(null.VIPLITE_MODEL, provider_options=options) as session:
        plain = _Plain(load(library), raw.nbytes)
        yield compare(
            f"InferenceSession.run / ctypes, VIPLite, uint8 {size}x{size}",
            lambda: session.run(None, {"x": raw}),
            lambda: plain.run(raw),
            rounds=rounds,
            repeat=repeat,
        )
    with anynpu.InferenceSession(
        null.VIPLITE_MODEL, provider_options={"library": library}
    ) as session:
        yield compare(
            f"InferenceSession.run / ctypes + NumPy, VIPLite, float32 {size}x{size}",
            lambda: session.run(None, {"x": real}),
            lambda: plain.run_real(real),
            rounds=rounds,
            repeat=repeat,
        )


class _Plain:
    """A network and its buffers with nothing but the C calls; the process's end frees them."""

    def __init__(self, library: VipliteLibrary, size: int) -> None:
        self._library = library
        library.vip_init()
        self._network = ctypes.c_void_p()
        kind = abi.CreateNetworkType.MEMORY
        model = null.VIPLITE_MODEL
        library.vip_create_network(model, len(model), kind, ctypes.byref(self._network))
        library.vip_prepare_network(self._network)
        self._input, self._output = self._buffer(size), self._buffer(_CLASSES)
        library.vip_set_input(self._network, 0, self._input)
        library.vip_set_output(self._network, 0, self._output)
        self._source = library.vip_map_buffer(self._input)
        self._target = library.vip_map_buffer(self._output)

    def _buffer(self, size: int) -> Any:
        params = abi.BufferCreateParams(num_of_dims=1)
        params.sizes[0] = size
        params.data_format = abi.BufferFormat.UINT8
        buffer = ctypes.c_void_p()
        self._library.vip_create_buffer(ctypes.byref(params), 0, ctypes.byref(buffer))
        return buffer

    def run(self, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Quantised values in and out."""
        library = self._library
        ctypes.memmove(self._source, values.ctypes.data, values.nbytes)
        library.vip_flush_buffer(self._input, _FLUSH)
        if code := library.vip_run_network(self._network):
            raise RuntimeError(f"vip_run_network returned {code}")
        library.vip_flush_buffer(self._output, _INVALIDATE)
        result = np.empty((1, _CLASSES), np.uint8)
        ctypes.memmove(result.ctypes.data, self._target, result.nbytes)
        return result

    def run_real(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Real values in and out, of scale 1 and zero point 0."""
        quantised = np.clip(np.rint(values / np.float32(1)) + 0, 0, 255).astype(np.uint8)
        result: NDArray[np.float32] = self.run(quantised).astype(np.float32)
        np.subtract(result, np.float32(0), out=result)
        np.multiply(result, np.float32(1), out=result)
        return result
