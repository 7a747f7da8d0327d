"""The runtime of a library: `vip_init` with the first who uses it, `vip_destroy` with the last."""

from __future__ import annotations

import ctypes
import threading

from .. import process
from ..errors import ClosedError, StateError
from ..process import Inherited
from .abi import Interface, Status
from .library import VipliteLibrary, missing_kernel_node

_DRIVER_TROUBLE = (Status.IO, Status.FAILURE, Status.POWER_OFF)


class Runtime:
    """Counts the handles of a library in this process. Any thread may use it."""

    def __init__(self, library: VipliteLibrary) -> None:
        self.library = library
        self.lock = threading.RLock()
        """Held while handles come and go."""
        self.video_memory = 0
        """Bytes of the heap that V85x's `vip_init` is told to make; others take no such number.

        Set it before the first network, buffer or group. What 0 means there no document says.
        """
        self._users = 0

    @property
    def users(self) -> int:
        """How many there are; without any the runtime is not initialised."""
        return self._users

    def enter(self) -> None:
        """One more user: the first initialises. Raises `CallError` where that fails."""
        with self.lock:
            if not self._users:
                is_old = self.library.interface is Interface.V85X
                arguments = (self.video_memory,) if is_old else ()
                code = self.library.vip_init(*arguments)
                self.library.check("vip_init", code, self._trouble(code) if code else "")
            self._users += 1

    def leave(self) -> None:
        """One user less; the last one's leaving ends the runtime."""
        with self.lock:
            self._users -= 1
            if not self._users:
                self.library.vip_destroy()

    def _trouble(self, code: int) -> str:
        detail = f"library: {self.library.path}"
        node = "" if self.library.is_soft or code not in _DRIVER_TROUBLE else missing_kernel_node()
        return f"{detail}\n{node}" if node else detail


_lock = process.lock()
_runtimes: dict[VipliteLibrary, Runtime] = {}
process.in_child(_runtimes.clear)


def runtime_of(library: VipliteLibrary) -> Runtime:
    """The runtime of a library: the same one for all who ask."""
    with _lock:
        if library not in _runtimes:
            _runtimes[library] = Runtime(library)
        return _runtimes[library]


class Handle(Inherited):
    """A handle of C's and what it needs: networks its buffers, duplicates their original.

    `close` asks for its end; the C function `destroy` follows at once, or when nothing that is
    alive needs it any more. Any thread may call it.
    """

    def __init__(self, runtime: Runtime, create: str, destroy: str, *arguments: object) -> None:
        """Call a C function that writes a handle to its last argument.

        Raises `CallError` where it fails.
        """
        super().__init__()
        self.runtime = runtime
        self.library = runtime.library
        self._destroy = destroy
        self._needs: dict[object, Handle] = {}
        self._dependents = 0
        self._is_closing = self._is_destroyed = False
        value = ctypes.c_void_p()
        runtime.enter()
        try:
            function = getattr(self.library, create)
            self.library.check(create, function(*arguments, ctypes.byref(value)))
            if not value.value:
                self.library.check(create, Status.FAILURE, "it gave no handle")
        except BaseException:
            runtime.leave()
            raise
        self._value = value.value

    @property
    def value(self) -> int:
        """The value to pass to C; raises `ClosedError` once `close` was called.

        Raises `StateError` in a process that was forked since.
        """
        self.check_inherited()
        if self._is_closing:
            raise ClosedError(
                "this is closed: a network, buffer or group was used after close(); open another"
            )
        assert self._value is not None
        return self._value

    def value_in(self, runtime: Runtime) -> int:
        """The value for a call of a runtime's; raises `StateError` where it is another one's."""
        if runtime is not self.runtime:
            raise StateError(
                f"a network, buffer or group of {self.library.path} can't be used with one of "
                f"{runtime.library.path}: give both the same library"
            )
        return self.value

    def need(self, key: object, other: Handle) -> None:
        """Keep another handle alive, in the place of what the key stood for before."""
        with self.runtime.lock:
            before = self._needs.get(key)
            other._dependents += 1
            self._needs[key] = other
            if before is not None:
                before._let_go()

    def forget(self, key: object) -> None:
        """What the key stands for is needed no more."""
        with self.runtime.lock:
            before = self._needs.pop(key, None)
            if before is not None:
                before._let_go()

    def close(self) -> None:
        """Ask for the end; twice does nothing, nor in a forked process."""
        if self.is_inherited:
            return
        with self.runtime.lock:
            self._is_closing = True
            self._destroy_if_due()

    def _let_go(self) -> None:
        self._dependents -= 1
        self._destroy_if_due()

    def _destroy_if_due(self) -> None:
        if not self._is_closing or self._dependents or self._is_destroyed:
            return
        self._is_destroyed = True
        self.before_destroy()
        getattr(self.library, self._destroy)(self._value)
        needs, self._needs = list(self._needs.values()), {}
        for other in needs:
            other._let_go()
        self.runtime.leave()

    def before_destroy(self) -> None:
        """What a kind of handle does before it is destroyed."""
