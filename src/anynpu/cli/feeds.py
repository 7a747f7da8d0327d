"""What `--input` gives to a model: arrays and pictures from files, or random values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import backends
from ..errors import ModelError, OptionError
from ..tensor import Layout

if TYPE_CHECKING:
    from ..session import InferenceSession, NodeArg

Feed = dict[str, NDArray[Any]]
_CHANNELS = (1, 3, 4)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--input` and what belongs to it."""
    parser.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a .npy array, an .npz file with an array for each input, or a picture, which is "
        "resized to the model's pixels; without it, random values",
    )
    parser.add_argument("--bgr", action="store_true", help="give pictures as BGR, not as RGB")
    parser.add_argument("--seed", type=int, default=0, help="of the random values (default: 0)")


def read_feed(session: InferenceSession, options: argparse.Namespace, model: str) -> Feed:
    """One array for each input of a session of a model.

    Raises `OptionError` for a name that the model doesn't have, for an input that is given twice or
    that is missing where others are given; `ModelError` for a file that can't be read.
    """
    args = {arg.name: arg for arg in session.get_inputs()}
    if not options.input:
        rng = np.random.default_rng(options.seed)
        found = backends.choose(model).normalizations(model, list(args))
        return {
            name: _random(arg, normalization, rng)
            for (name, arg), normalization in zip(args.items(), found, strict=True)
        }
    feed: Feed = {}
    for text in options.input:
        given = _named(text, args, is_bgr=options.bgr)
        if twice := feed.keys() & given.keys():
            raise OptionError(f"--input {text}: {', '.join(sorted(twice))} has a value already")
        feed |= given
    missing = [name for name in args if name not in feed]
    if missing:
        raise OptionError(f"no --input for {', '.join(missing)}; the model takes {', '.join(args)}")
    return feed


def _named(text: str, args: dict[str, NodeArg], *, is_bgr: bool) -> Feed:
    name, path = _split(text, args)
    if path.suffix == ".npz":
        arrays = _read_arrays(path)
        unknown = [key for key in arrays if key not in args]
        if unknown:
            raise OptionError(f"{path} has {', '.join(unknown)}; the model takes {', '.join(args)}")
        return arrays
    arg = args[name]
    if path.suffix == ".npy":
        return {name: _read_array(path)}
    return {name: _read_picture(path, arg, is_bgr=is_bgr)}


def _split(text: str, args: dict[str, NodeArg]) -> tuple[str, Path]:
    """(input's name, path); an input's name may have an equals sign, and so may a path."""
    for name in sorted(args, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, Path(text[len(name) + 1 :])
    if len(args) == 1 or text.endswith(".npz"):
        name, equals, _ = text.partition("=")
        if equals and not Path(text).exists():
            raise OptionError(f"--input {text}: the model has no {name!r}, but {', '.join(args)}")
        return next(iter(args)), Path(text)
    raise OptionError(
        f"--input {text}: say for which input, NAME=FILE; there are {', '.join(args)}"
    )


def _read_array(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise ModelError(f"{path} can't be read as an array: {error}") from None
    return array


def _read_arrays(path: Path) -> Feed:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, AttributeError) as error:
        raise ModelError(f"{path} can't be read as arrays: {error}") from None


def _read_picture(path: Path, arg: NodeArg, *, is_bgr: bool) -> NDArray[Any]:
    from PIL import Image, UnidentifiedImageError

    if len(arg.shape) != 4:
        raise OptionError(f"input {arg.name!r} has the shape {arg.shape}, which is no picture's")
    planes = arg.layout is not Layout.NHWC
    channels, height, width = arg.shape[1:] if planes else (arg.shape[3], *arg.shape[1:3])
    if channels not in _CHANNELS:
        raise OptionError(f"input {arg.name!r} has {channels} channels, which no picture has")
    try:
        with Image.open(path) as opened:
            picture = opened.convert(_MODES[channels]).resize((width, height))
    except UnidentifiedImageError:
        raise ModelError(f"{path} is neither a picture nor an .npy or .npz file") from None
    pixels = np.asarray(picture).reshape(height, width, channels)
    if is_bgr and channels == 3:
        pixels = pixels[:, :, ::-1]
    image = pixels.transpose(2, 0, 1) if planes else pixels
    return np.ascontiguousarray(np.broadcast_to(image, (arg.shape[0], *image.shape)))


def _random(arg: NodeArg, normalization: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Values that the input can hold: pixels for one that takes them, zeros for whole numbers.

    Whole numbers may be indices, of which 0 is always one. A quantised input gets values of its
    range, an image that is normalised pixels, another one normal values.
    """
    if arg.dtype.numpy.kind != "f":
        return np.zeros(arg.shape, arg.dtype.numpy)
    is_normalized = normalization is not None and not normalization.is_identity
    if arg.model_dtype.numpy.kind in "iu" and arg.scale:
        limits = np.iinfo(arg.model_dtype.numpy.name)
        ends = (np.array([limits.min, limits.max], np.float64) - arg.zero_point) * arg.scale
        if is_normalized:
            ends = ends * max(normalization.std) + min(normalization.mean)
        if ends[1] < _PIXELS:
            low, high = map(float, ends)
            return rng.uniform(low, high, tuple(arg.shape)).astype(np.float32)
        return rng.integers(0, 256, arg.shape, np.uint8)
    if is_normalized and len(arg.shape) == 4:
        return rng.integers(0, 256, arg.shape, np.uint8)
    return rng.standard_normal(arg.shape).astype(np.float32)


_PIXELS = 100
"""What takes larger values takes pixels of 0..255."""


def describe(feed: Feed, options: argparse.Namespace) -> str:
    """Where a feed's values come from."""
    files: Sequence[str] = options.input
    if files:
        return ", ".join(files)
    inputs = "1 input" if len(feed) == 1 else f"{len(feed)} inputs"
    return f"random values (seed {options.seed}) for {inputs}"
