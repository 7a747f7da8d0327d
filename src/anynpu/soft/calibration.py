"""Calibration data for quantising: a folder of images or arrays, as ONNX Runtime reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader

from ..errors import OptionError
from .engines import Normalization
from .engines.onnx_boundary import fed_inputs

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
ARRAY_SUFFIXES = (".npy", ".npz")


class CalibrationFolder(CalibrationDataReader):  # type: ignore[misc]
    """Reads the files of a folder in the order of their names, one calibration run for each.

    An image is resized to the model's one image input and read as RGB, or as BGR. A `.npy` file
    holds the values of the one input; a `.npz` file holds an array for each input, by name.
    Arrays of images may be NHWC or NCHW, with or without the batch axis. All values are as a
    program passes them to the runtime, before normalisation.

    Raises `OptionError` for a folder without such files and for files that don't fit the model.
    """

    def __init__(
        self,
        folder: Path,
        model: onnx.ModelProto,
        normalization: Mapping[str, Normalization],
        *,
        bgr: bool = False,
    ) -> None:
        if not folder.is_dir():
            raise OptionError(f"the calibration folder {folder} is not a folder")
        suffixes = IMAGE_SUFFIXES + ARRAY_SUFFIXES
        self._files = sorted(f for f in folder.iterdir() if f.suffix.lower() in suffixes)
        if not self._files:
            raise OptionError(f"{folder} has no files {', '.join('*' + s for s in suffixes)}")
        self._inputs = _inputs(model)
        self._normalization = normalization
        self._bgr = bgr
        self._remaining: Iterator[Path] = iter(self._files)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """The next file's feeds, None after the last one."""
        file = next(self._remaining, None)
        return None if file is None else self._feeds(file)

    def rewind(self) -> None:
        """Begin again with the first file."""
        self._remaining = iter(self._files)

    def _feeds(self, file: Path) -> dict[str, NDArray[Any]]:
        if file.suffix.lower() == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                values = {name: arrays[name] for name in arrays.files}
        elif len(self._inputs) != 1:
            raise OptionError(
                f"{file.name}: the model has the inputs {list(self._inputs)}; give .npz files with "
                f"an array for each"
            )
        else:
            (name,) = self._inputs
            is_array = file.suffix.lower() == ".npy"
            values = {
                name: np.load(file, allow_pickle=False) if is_array else self._image(file, name)
            }
        if set(values) != set(self._inputs):
            raise OptionError(f"{file.name} has {list(values)}, not {list(self._inputs)}")
        return {name: self._prepare(file, name, value) for name, value in values.items()}

    def _image(self, file: Path, name: str) -> NDArray[np.uint8]:
        from PIL import Image

        shape = self._inputs[name][0]
        if len(shape) != 4 or shape[1] not in (1, 3):
            raise OptionError(f"{file.name}: input {name!r} of shape {shape} takes no images")
        with Image.open(file) as opened:
            image = opened.convert("L" if shape[1] == 1 else "RGB")
        pixels = np.asarray(image.resize((shape[3], shape[2]), Image.Resampling.BILINEAR))
        pixels = pixels.reshape(shape[2], shape[3], shape[1])
        return pixels[:, :, ::-1] if self._bgr else pixels

    def _prepare(self, file: Path, name: str, value: NDArray[Any]) -> NDArray[Any]:
        """The values as the source model takes them: NCHW, normalised, of its own dtype."""
        shape, dtype = self._inputs[name]
        if value.ndim == len(shape) - 1:
            value = value[None]
        if len(shape) == 4 and value.shape == (shape[0], *shape[2:], shape[1]):
            value = value.transpose(0, 3, 1, 2)
        if value.shape != shape:
            raise OptionError(
                f"{file.name}: the array for input {name!r} has the shape {value.shape}, the model "
                f"takes {shape}"
            )
        if (normalization := self._normalization.get(name)) is not None:
            value = normalization.apply(value)
        return np.ascontiguousarray(value.astype(dtype))


def _inputs(model: onnx.ModelProto) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    return {
        info.name: (
            tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim),
            onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type),
        )
        for info in fed_inputs(model.graph)
    }
