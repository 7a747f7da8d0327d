"""A network that takes one picture: pixels in, outputs as the device gives them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from ..model import Model
from ..session import InferenceSession
from ..tensor import Layout, Quantization, TensorInfo
from .cells import Output
from .pictures import Pixels

Source = InferenceSession | Model
"""What runs a network: a session, with all cores, or a model, which one thread may use."""


class PictureNetwork:
    """A session or a model with one input, a picture.

    It is borrowed: who opened it closes it. Outputs are taken as the session's options have them:
    quantised with ``output_dtype="model"``, channel blocks with ``output_layout="native"``.
    """

    def __init__(self, source: Source) -> None:
        self._runner: _Runner = (
            _ModelRunner(source) if isinstance(source, Model) else _SessionRunner(source)
        )
        shape = self._runner.input_shape
        self._is_nhwc = self._runner.input_layout is Layout.NHWC
        if len(shape) != 4 or shape[0] != 1:
            raise TensorError(
                f"a picture's network has an input of (1, height, width, channels) or (1, "
                f"channels, height, width); this one's is {tuple(shape)}"
            )
        height, width, channels = shape[1:] if self._is_nhwc else (*shape[2:], shape[1])
        self.channels: int = channels
        if self.channels not in (1, 3):
            raise TensorError(
                f"a picture has 1 or 3 channels; the model's input {tuple(shape)} has "
                f"{self.channels}: open the session with the layout that the file has"
            )
        self.size = (width, height)

    @property
    def outputs(self) -> Sequence[Output]:
        """The outputs without values, as far as they are known before a run."""
        return self._runner.outputs

    def run(self, pixels: NDArray[Any]) -> list[Output]:
        """The outputs for RGB (height, width, 3) of the input's size."""
        return self._runner.run(self._feed(pixels))

    def stream(self, pixels: Iterable[NDArray[Any]]) -> Iterator[list[Output]]:
        """The outputs for each, in order, with all cores at work."""
        return self._runner.stream(map(self._feed, pixels))

    def _feed(self, pixels: NDArray[Any]) -> NDArray[Any]:
        if self.channels == 1:
            pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[..., None]
        batch: NDArray[Any] = pixels[None]
        return batch if self._is_nhwc else batch.transpose(0, 3, 1, 2)


class _Runner(Protocol):
    @property
    def input_shape(self) -> Sequence[int]: ...

    @property
    def input_layout(self) -> Layout: ...

    @property
    def outputs(self) -> Sequence[Output]: ...

    def run(self, feed: NDArray[Any]) -> list[Output]: ...

    def stream(self, feeds: Iterator[NDArray[Any]]) -> Iterator[list[Output]]: ...


class _SessionRunner:
    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        arguments = session.get_inputs()
        _check_one([argument.name for argument in arguments])
        self._name = arguments[0].name
        self.input_shape, self.input_layout = arguments[0].shape, _layout(arguments[0])
        self.outputs = [
            _output(shown, plain, is_quantized=argument.dtype is argument.model_dtype)
            for shown, plain, argument in zip(
                session.network.outputs,
                session.network.logical_outputs,
                session.get_outputs(),
                strict=True,
            )
        ]

    def run(self, feed: NDArray[Any]) -> list[Output]:
        return self._filled(self._session.run(None, {self._name: feed}))

    def stream(self, feeds: Iterator[NDArray[Any]]) -> Iterator[list[Output]]:
        return map(self._filled, self._session.map({self._name: feed} for feed in feeds))

    def _filled(self, arrays: Sequence[NDArray[Any]]) -> list[Output]:
        return [replace(out, values=array) for out, array in zip(self.outputs, arrays, strict=True)]


class _ModelRunner:
    def __init__(self, model: Model) -> None:
        self._model = model
        infos = model.input_attrs
        _check_one([info.name for info in infos])
        self.input_shape, self.input_layout = infos[0].shape, infos[0].layout
        self.outputs = [
            Output(info.name, shape, _NOTHING, info.layout, info.quantization)
            for info, shape in zip(model.output_attrs, model.output_shapes, strict=True)
        ]

    def run(self, feed: NDArray[Any]) -> list[Output]:
        self._model.run(feed)
        return [self._filled(index, output) for index, output in enumerate(self.outputs)]

    def stream(self, feeds: Iterator[NDArray[Any]]) -> Iterator[list[Output]]:
        return map(self.run, feeds)

    def _filled(self, index: int, output: Output) -> Output:
        from ..layouts import blocks_of_surfaces

        raw = self._model.output_raw(index)
        if output.layout is Layout.NC1HWC2:
            raw = blocks_of_surfaces(raw, *output.shape[2:])
        return replace(output, values=raw)


_NOTHING: NDArray[Any] = np.empty(0, np.uint8)


def _check_one(names: Sequence[str]) -> None:
    if len(names) != 1:
        raise TensorError(
            f"a picture's network has one input; this one has {len(names)}, {list(names)}: run it "
            f"with session.run"
        )


def _layout(argument: Any) -> Layout:
    layout: Layout = argument.layout
    if layout in (Layout.NHWC, Layout.NCHW):
        return layout
    return Layout.NHWC if argument.shape[-1] in (1, 3) else Layout.NCHW


def _output(shown: TensorInfo, logical: TensorInfo, *, is_quantized: bool) -> Output:
    """What a session gives for an output; `logical` has the model's own order of axes."""
    shape = logical.shape
    if shown.layout is Layout.NHWC and len(shape) == 4:
        n, height, width, channels = shape
        shape = (n, channels, height, width)
    quantization: Quantization | None = shown.quantization if is_quantized else None
    return Output(shown.name, shape, _NOTHING, shown.layout, quantization)


def pixels_of(rgb: Pixels, *, is_bgr: bool) -> NDArray[Any]:
    """Pixels in the order of channels that a network was trained on; a view for BGR."""
    return rgb[..., ::-1] if is_bgr else rgb
