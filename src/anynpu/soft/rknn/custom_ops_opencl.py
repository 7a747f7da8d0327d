"""OpenCL for custom operators of the GPU target, on whatever OpenCL device this machine has.

A GPU is taken before a processor; without a driver `pip install 'anynpu[opencl]'` brings PoCL,
which runs kernels on the processor. The objects are OpenCL's own, so a C program can use them.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ... import process
from ...rknn.abi import ErrorCode, GpuOpContext
from .failure import Failure

_lock = process.lock()


@dataclass(frozen=True)
class KernelSource:
    """A kernel function in a program's source, and the options to compile it with."""

    text: str
    name: str
    options: str


class Kernel:
    """A kernel of a node's own (its arguments are state), with a queue of its own.

    `structure` has the raw handles, which live as long as this object.
    """

    def __init__(self, source: KernelSource) -> None:
        cl = _pyopencl()
        context = _context()
        # pyopencl keeps files and warns through the process's filters: one build at a time.
        with _lock:
            program = _program(source.text, source.options)
        try:
            self._kernel = cl.Kernel(program, source.name)
            self._queue = cl.CommandQueue(context)
        except cl.Error as error:
            raise Failure(
                ErrorCode.FAIL, f"the OpenCL kernel {source.name!r} can't be made: {error}"
            ) from None
        self.structure = GpuOpContext(
            cl_context=context.int_ptr,
            cl_command_queue=self._queue.int_ptr,
            cl_kernel=self._kernel.int_ptr,
        )


def read_source(path: bytes) -> str:
    """The text of a kernel's file; PARAM_INVALID where it can't be read."""
    try:
        with open(os.fsdecode(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"the OpenCL file {os.fsdecode(path)!r} can't be read: {error}"
        ) from None


_DRIVERS_VARIABLE = "OCL_ICD_VENDORS"
_DRIVERS = Path("/etc/OpenCL/vendors")


def _find_pocl() -> None:
    """Tell OpenCL's loader of PoCL where the system has no driver.

    pyopencl brings a loader that knows where PoCL is. In a program that is linked to the system's
    own, calls go there.
    """
    spec = find_spec("pyopencl")
    if _DRIVERS_VARIABLE in os.environ or any(_DRIVERS.glob("*.icd")) or spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        for library in Path(folder).glob(".libs/libpocl*.so*"):
            os.environ[_DRIVERS_VARIABLE] = str(library)


@cache
def _pyopencl() -> Any:
    try:
        # OpenCL's loader looks for drivers once, at the first call.
        _find_pocl()
        import pyopencl
    except ImportError as error:
        raise Failure(
            ErrorCode.FAIL,
            f"a custom op for the GPU needs OpenCL: pip install 'anynpu[opencl]' ({error})",
        ) from None
    return pyopencl


@cache
def _context() -> Any:
    """One context for the process, on the best device there is."""
    cl = _pyopencl()
    try:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        devices.sort(key=lambda device: not device.type & cl.device_type.GPU)
        if devices:
            return cl.Context(devices[:1])
    except cl.Error as error:
        raise Failure(ErrorCode.FAIL, f"OpenCL can't be used: {error}") from None
    raise Failure(
        ErrorCode.FAIL,
        "no OpenCL device was found: install a driver, or PoCL (pip install 'anynpu[opencl]')",
    )


@lru_cache(maxsize=64)
def _program(text: str, options: str) -> Any:
    cl = _pyopencl()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cl.Program(_context(), text).build(options=options.split(), cache_dir=False)
    except cl.Error as error:
        raise Failure(ErrorCode.FAIL, f"the OpenCL program can't be built: {error}") from None
