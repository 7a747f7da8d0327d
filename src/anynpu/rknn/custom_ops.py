"""Custom operators: from plugins, which are shared libraries, and written in Python.

    @anynpu.rknn.custom_op("cstClip")
    def clip(node, inputs, outputs):
        np.clip(inputs[0], node.attribute("low", 0), node.attribute("high", 6), out=outputs[0])

    others = anynpu.rknn.CustomOp.load("librkcst_argmax.so")
    session = anynpu.InferenceSession("model.rknn", custom_ops=[clip, others])

A context calls them for the nodes of their type: section 5.5 of Rockchip's user guide.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import LibraryError, OptionError
from . import abi
from .custom_ops_python import FunctionOp, PythonCallbacks
from .library import RknnLibrary, load

_ENTRY = "get_rknn_custom_op"
_FOLDERS = (Path("/usr/lib/rknpu/op_plugins"), Path("/vendor/lib64"), Path("/vendor/lib"))
_PATTERN = "librkcst_*.so"


class CustomOp:
    """An operator to register with contexts, any number of them: `Context.register_custom_ops`.

    `op_type` is the type of the nodes that it computes, `version` and `target` (TargetType.CPU or
    GPU) are what its author says. Make one with `load` or with the decorator `custom_op`.
    """

    def __init__(
        self,
        op_type: str,
        version: int,
        target: abi.TargetType,
        bind: Callable[[RknnLibrary], tuple[abi.CustomOp, PythonCallbacks | None]],
    ) -> None:
        self.op_type = op_type
        self.version = version
        self.target = target
        self._bind = bind
        self._plugin: ctypes.CDLL | None = None
        self.__wrapped__: Any = None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
    ) -> CustomOp:
        """The operator of a plugin: a shared library that exports `get_rknn_custom_op`.

        It stays loaded. `library` is the runtime that the plugin calls, as
        `anynpu.rknn.library.load` takes it. Raises `LibraryError` where the file is no such plugin.
        """
        load(library).expose()
        name = os.path.abspath(path)
        try:
            plugin = ctypes.CDLL(name)
            entry = getattr(plugin, _ENTRY)
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{name} isn't a plugin with a custom operator: {error}") from None
        entry.restype = ctypes.POINTER(abi.CustomOp)
        found: ctypes._Pointer[abi.CustomOp] = entry()
        if not found:
            raise LibraryError(f"{name}: {_ENTRY} returned NULL")
        # Plugins fill one structure anew with each call of the entry.
        structure = abi.CustomOp.from_buffer_copy(found.contents)
        try:
            target = abi.TargetType(structure.target)
        except ValueError:
            raise LibraryError(
                f"{name}: the operator's target {structure.target} is unknown"
            ) from None
        op_type = structure.op_type.decode(errors="replace")
        operator = cls(op_type, structure.version, target, lambda _: (structure, None))
        operator._plugin = plugin
        return operator

    @classmethod
    def load_default(
        cls, *, library: str | os.PathLike[str] | RknnLibrary | None = None
    ) -> list[CustomOp]:
        """The operators of the plugins in the vendor's folders, named `librkcst_*.so`.

        One that can't be loaded is skipped with a warning.
        """
        found = []
        for path in (path for folder in _FOLDERS for path in sorted(folder.glob(_PATTERN))):
            try:
                found.append(cls.load(path, library=library))
            except LibraryError as error:
                warnings.warn(f"{error}", UserWarning, stacklevel=2)
        return found

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the Python function or class that the operator was made of."""
        if self.__wrapped__ is None:
            raise TypeError(f"{self!r} is a plugin's, not written in Python")
        return self.__wrapped__(*arguments, **keywords)

    def __repr__(self) -> str:
        return f"<CustomOp {self.op_type} for the {self.target.name}>"


def custom_op(op_type: str, *, version: int = 1) -> Callable[[Callable[..., Any]], CustomOp]:
    """Make a function or a class the operator for nodes of the type `op_type`.

    A function gets (node, inputs, outputs): a `CustomOpNode`, and two tuples of arrays that are
    views on the runtime's own tensors, nothing being copied. Inputs can't be written to; outputs
    are to be filled, or the function returns them, which copies. Images are NCHW; real numbers
    are float32, whatever the model's type, others of the model's own.

    A class is made for each node, at `register_custom_ops`, with the same three arguments, whose
    arrays have no values yet. `compute(inputs, outputs)` is called in each run, `prepare(inputs,
    outputs)` before it and `destroy()` at the context's end where the class has them. `__init__`
    may raise `UseBuiltin`.

    An exception is logged (logger ``anynpu.rknn``), and the run or the registration fails; the
    error that `Context` raises has it as its cause.
    """
    size = abi.CustomOp.op_type.size
    if not 0 < len(op_type.encode()) < size:
        raise OptionError(f"op_type {op_type!r} must have 1 to {size - 1} bytes")

    def decorate(implementation: Callable[..., Any]) -> CustomOp:
        is_class = isinstance(implementation, type)
        if is_class and not callable(getattr(implementation, "compute", None)):
            raise OptionError(f"the class for the custom operator {op_type!r} has no compute()")

        def make(node: Any, inputs: Any, outputs: Any) -> Any:
            if is_class:
                return implementation(node, inputs, outputs)
            return FunctionOp(implementation, node)

        def bind(library: RknnLibrary) -> tuple[abi.CustomOp, PythonCallbacks]:
            callbacks = PythonCallbacks(op_type, make, library)
            structure = abi.CustomOp(
                version=version,
                target=abi.TargetType.CPU,
                op_type=op_type.encode(),
                init=callbacks.init,
                prepare=callbacks.prepare,
                compute=callbacks.compute,
                destroy=callbacks.destroy,
            )
            return structure, callbacks

        operator = CustomOp(op_type, version, abi.TargetType.CPU, bind)
        operator.__wrapped__ = implementation
        operator.__doc__ = implementation.__doc__
        return operator

    return decorate


def bind_all(
    operators: Sequence[CustomOp], library: RknnLibrary
) -> tuple[Any, list[PythonCallbacks]]:
    """(C's array of the operators, the callbacks of those in Python)."""
    bound = [operator._bind(library) for operator in operators]
    array = (abi.CustomOp * len(bound))(*(structure for structure, _ in bound))
    return array, [callbacks for _, callbacks in bound if callbacks is not None]
