"""Calibration data for quantising: a folder of images or arrays, as ONNX Runtime reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader

from ...errors import OptionError
from ..engines import Normalization
from ..engines.onnx.boundary import fed_inputs
from .array_files import read_npy, read_npz

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
ARRAY_SUFFIXES = (".npy", ".npz")
_FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
_MOST_PIXELS = 1 << 26


class CalibrationFolder(CalibrationDataReader):  # type: ignore[misc]
    """Reads the files of a folder in the order of their names, one calibration run for each.

    An image is resized to the model's one image input and read as RGB, or as BGR. A `.npy` file
    holds the values of the one input; a `.npz` file holds an array for each input, by name.
    Arrays of images may be NHWC or NCHW, with or without the batch axis. All values are as a
    program passes them to the runtime, before normalisation.

    Raises `OptionError` for a folder without such files, and one that names the file for files that
    don't fit the model, aren't whole, or hold anything but finite numbers. What a file announces is
    checked before memory is taken for it.
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
        if not file.is_file():
            raise OptionError(f"{file.name} is not a file")
        if file.suffix.lower() == ".npz":
            values = read_npz(file, self._inputs, self._accepts)
        elif len(self._inputs) != 1:
            raise OptionError(
                f"{file.name}: the model has the inputs {list(self._inputs)}; give .npz files with "
                f"an array for each"
            )
        else:
            (name,) = self._inputs
            is_array = file.suffix.lower() == ".npy"
            values = {
                name: read_npy(file, name, self._accepts) if is_array else self._image(file, name)
            }
        return {name: self._prepare(file, name, value) for name, value in values.items()}

    def _image(self, file: Path, name: str) -> NDArray[np.uint8]:
        from PIL import Image

        shape = self._inputs[name][0]
        if len(shape) != 4 or shape[1] not in (1, 3):
            raise OptionError(f"{file.name}: input {name!r} of shape {shape} doesn't take images")
        try:
            with Image.open(file, formats=_FORMATS) as opened:
                if math.prod(opened.size) > _MOST_PIXELS:
                    raise OptionError(
                        f"{file.name} has {opened.size[0]}x{opened.size[1]} pixels, more than "
                        f"{_MOST_PIXELS}"
                    )
                image = opened.convert("L" if shape[1] == 1 else "RGB")
        except OptionError:
            raise
        except Exception as error:  # Pillow's decoders have errors of many kinds
            raise OptionError(f"{file.name} is not an image that can be read: {error}") from None
        pixels = np.asarray(image.resize((shape[3], shape[2]), Image.Resampling.BILINEAR))
        pixels = pixels.reshape(shape[2], shape[3], shape[1])
        return pixels[:, :, ::-1] if self._bgr else pixels

    def _accepts(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether an array has an input's shape, NCHW or NHWC, with or without the batch axis."""
        wanted = self._inputs[name][0]
        layouts = {wanted, (wanted[0], *wanted[2:], wanted[1])} if len(wanted) == 4 else {wanted}
        return shape in layouts or (1, *shape) in layouts

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
        with np.errstate(over="ignore", invalid="ignore"):
            cast = np.ascontiguousarray(value.astype(dtype))
        if not (np.isfinite(value).all() and np.isfinite(cast).all()):
            raise OptionError(f"{file.name}: input {name!r} has values that aren't finite")
        return cast


def _inputs(model: onnx.ModelProto) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    return {
        info.name: (
            tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim),
            onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type),
        )
        for info in fed_inputs(model.graph)
    }
