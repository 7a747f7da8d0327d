"""`.npy` and `.npz` files of strangers: what an array is to be is checked before it is read.

NumPy's own reader allocates what a file announces, unpacks what isn't an array, and says neither
which file nor which array it means.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ...errors import OptionError

_MAGIC_BYTES = 8
_LONGEST_HEADER = 1 << 16
_NUMBERS = "biuf"

Accepts = Callable[[str, tuple[int, ...]], bool]
"""Whether an array of a name may have a shape."""


def read_npy(path: Path, name: str, accepts: Accepts) -> NDArray[Any]:
    """The array of numbers in a `.npy` file, which is to be called `name`.

    Raises `OptionError` that names the file for anything else, and for a shape that isn't accepted.
    """
    try:
        with open(path, "rb") as file:
            return _read(file, path.name, name, accepts)
    except OSError as error:
        raise OptionError(f"{path.name} can't be read: {error}") from None


def read_npz(path: Path, names: Collection[str], accepts: Accepts) -> dict[str, NDArray[Any]]:
    """The arrays of a `.npz` file, one for each of `names` and no other; errors as `read_npy`'s."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info.filename.removesuffix(".npy") for info in archive.infolist()]
            if sorted(members) != sorted(names):
                raise OptionError(f"{path.name} has {members[:20]}, not {list(names)}")
            found = {}
            for info, name in zip(archive.infolist(), members, strict=True):
                with archive.open(info) as file:
                    found[name] = _read(file, path.name, name, accepts)
            return found
    except (OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{path.name} can't be read: {error}") from None
    except Exception as error:  # the errors of what a member is packed with
        raise OptionError(f"{path.name} is damaged: {error}") from None


def _read(file: IO[bytes], where: str, name: str, accepts: Accepts) -> NDArray[Any]:
    what = f"{where}: the array for input {name!r}"
    shape, is_fortran, dtype = _header(file, what)
    if dtype.kind not in _NUMBERS:
        raise OptionError(
            f"{what} has elements of {dtype}, not numbers; what is pickled isn't read"
        )
    if not accepts(name, shape):
        raise OptionError(f"{what} has the shape {shape}, which the model doesn't take")
    size = math.prod(shape) * dtype.itemsize
    data = file.read(size)
    if len(data) != size or file.read(1):
        raise OptionError(
            f"{what} of shape {shape} takes {size} bytes; the file has another number of them"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    begin = file.read(_MAGIC_BYTES)
    if begin[:6] != npy.MAGIC_PREFIX or len(begin) != _MAGIC_BYTES:
        raise OptionError(f"{what} is not in the .npy format")
    length = file.read(2 if begin[6] == 1 else 4)
    size = int.from_bytes(length, "little")
    if size > _LONGEST_HEADER:
        raise OptionError(f"{what} has a header of {size} bytes")
    header = io.BytesIO(begin + length + file.read(size))
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        found = read[npy.read_magic(header)](header)
    except Exception as error:  # those of the parser for Python that NumPy uses
        raise OptionError(f"{what} has a header that isn't known: {error}") from None
    shape, is_fortran, dtype = found
    if not all(type(axis) is int and axis >= 0 for axis in shape):
        raise OptionError(f"{what} has the shape {shape}")
    return shape, is_fortran, dtype
