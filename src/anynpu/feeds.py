"""From what a person passes to `run` to arrays that a backend takes. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import TensorError
from .tensor import DType, Layout, TensorInfo

_WIDE = (DType.FLOAT64, DType.UINT64)
FEEDABLE = tuple(dtype for dtype in DType if dtype.numpy_name and dtype not in _WIDE)
"""The element types that backends convert from by themselves."""

Feed = Mapping[str, ArrayLike] | Sequence[ArrayLike] | ArrayLike


_FLOAT = np.dtype(np.float32)


class Named(Protocol):
    """What has the name of an input."""

    @property
    def name(self) -> str: ...


def match(infos: Sequence[Named], feed: Feed) -> list[ArrayLike]:
    """The feed's values in the model's order.

    `feed` is a dict by name, a list or tuple in the model's order, or the one array of a model
    with one input. Raises `TensorError` for missing, unknown or surplus inputs.
    """
    if isinstance(feed, Mapping):
        if len(feed) == len(infos):
            try:
                return [feed[info.name] for info in infos]
            except KeyError:
                pass  # the message below says which
        raise TensorError(_wrong_names([info.name for info in infos], list(feed)))
    names = [info.name for info in infos]
    if isinstance(feed, (list, tuple)) and len(names) > 1:
        if len(feed) != len(names):
            raise TensorError(
                f"the model has {len(names)} inputs {names}; {len(feed)} were given: pass an array "
                f"for each, in this order, or a dict by name"
            )
        return list(feed)
    if len(names) > 1:
        raise TensorError(
            f"the model has {len(names)} inputs {names}; found one {type(feed).__name__}: pass a "
            f"dict or a list with an array for each"
        )
    if isinstance(feed, (list, tuple)) and len(feed) == 1 and isinstance(feed[0], np.ndarray):
        return [feed[0]]
    return [feed]  # type: ignore[list-item]  # a lone array, or nested lists of numbers


def as_array(value: ArrayLike, info: TensorInfo) -> NDArray[Any]:
    """An array of a feedable dtype, which shares memory with `value` where it can.

    Other dtypes are cast to the tensor's host dtype where NumPy calls that safe or the same kind
    (float64, lists of numbers); `TensorError` where it doesn't. For a tensor of whole numbers the
    result has the tensor's own dtype, and every value fits it.
    """
    if isinstance(value, np.ndarray) and value.dtype == _FLOAT and info.is_real:
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TensorError(
            f"input {info.name!r} takes an array of {info.shape}; found {type(value).__name__} "
            f"that can't be made an array ({error}): give rows of equal length"
        ) from None
    if not info.is_real:
        return _whole_numbers(array, info)
    if DType.from_numpy(array.dtype) not in FEEDABLE:
        if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, np.float32, "same_kind"):
            raise TensorError(
                f"input {info.name!r} takes {', '.join(d.name.lower() for d in FEEDABLE)} or what "
                f"casts to float32; found {_type_of(value, array)}: convert it, such as with "
                f"array.astype(np.float32)"
            )
        array = array.astype(np.float32)
    return array


def _whole_numbers(array: NDArray[Any], info: TensorInfo) -> NDArray[Any]:
    """The array in the tensor's own dtype; `TensorError` for fractions and for what's too large."""
    target = info.host_dtype.numpy
    if array.dtype == target:
        return array
    if array.dtype.kind not in "biu":
        raise TensorError(
            f"input {info.name!r} takes {target}, whole numbers; found {array.dtype}: convert it "
            f"with array.astype(np.{target})"
        )
    low, high = (0, 1) if target.kind == "b" else _limits(target)
    if array.size and (array.min() < low or array.max() > high):
        raise TensorError(
            f"input {info.name!r} takes {target}, {low}..{high}; found values beyond: "
            f"{array.min()}..{array.max()}; bring them into the range"
        )
    return array.astype(target)


def _type_of(value: ArrayLike, array: NDArray[Any]) -> str:
    """How a message calls what was given."""
    if array.dtype.kind == "O":
        return f"{array.dtype} ({type(value).__name__})"
    return str(array.dtype)


def _wrong_names(names: list[str], given: list[Any]) -> str:
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    example = ", ".join(f"{name!r}: array" for name in names)
    return (
        f"the model's inputs are {names}; missing {missing}, unknown {unknown}: pass {{{example}}}"
    )


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype.name)
    return int(limits.min), int(limits.max)


def check_shape(array: NDArray[Any], shape: tuple[int, ...], info: TensorInfo) -> None:
    """Raise `TensorError` unless the array has the shape that the tensor takes."""
    if array.shape != shape:
        raise TensorError(
            f"input {info.name!r} takes the shape {shape}; found {array.shape}"
            + _hint(array.shape, shape, info)
        )


def check_shapes(
    arrays: Sequence[NDArray[Any]],
    sets: Sequence[tuple[tuple[int, ...], ...]],
    infos: Sequence[TensorInfo],
) -> None:
    """Raise `TensorError` unless the arrays' shapes are one of the sets that the model takes."""
    if tuple([array.shape for array in arrays]) in sets:
        return
    if len(sets) == 1:
        for array, info in zip(arrays, infos, strict=True):
            check_shape(array, info.shape, info)
    else:
        found = ", ".join(f"{i.name} {a.shape}" for a, i in zip(arrays, infos, strict=True))
        listed = "\n".join(
            "  " + ", ".join(f"{i.name} {shape}" for shape, i in zip(shapes, infos, strict=True))
            for shapes in sets
        )
        raise TensorError(
            f"the model takes these shapes; found {found}; give arrays of one set:\n{listed}"
        )


def places(names: Sequence[str], known: Sequence[str]) -> list[int]:
    """Where the named outputs are among the model's; raises `TensorError` for unknown names."""
    if isinstance(names, str):
        raise TensorError(
            f"output_names takes a list of names of {list(known)}, or None for all, not the "
            f"string {names!r}: pass [{names!r}]"
        )
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TensorError(
            f"there are no outputs {unknown}; the model has {list(known)}: name some of these, or "
            f"pass None for all"
        )
    return [known.index(name) for name in names]


def _hint(found: tuple[int, ...], wanted: tuple[int, ...], info: TensorInfo) -> str:
    """What to do with an array of another shape."""
    if len(found) == len(wanted) == 4 and (found[0], found[3], *found[1:3]) == wanted:
        return ", which is the same image as NHWC: transpose it with array.transpose(0, 3, 1, 2)"
    if len(found) == len(wanted) - 1 and wanted[0] == 1 and found == wanted[1:]:
        return ", which lacks the batch axis: pass array[None]"
    if len(found) == len(wanted) and found[1:] == wanted[1:] and found[0] > wanted[0]:
        return (
            f", which holds {found[0]} samples: run(..., batch='split') divides them between the "
            f"workers"
        )
    if len(found) == len(wanted) == 4 and info.layout in (Layout.NCHW, Layout.NHWC):
        height, width = wanted[2:] if info.layout is Layout.NCHW else wanted[1:3]
        return f": resize the image to {width} x {height} pixels, as {info.layout.value}"
    return ": give an array of this shape"
