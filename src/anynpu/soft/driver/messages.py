"""What the driver's library says to the engine, as native/driver/engine.c has it."""

from __future__ import annotations

import ctypes
import enum

from ...structures import Structure

SUB_LISTS = 5


class Kind(enum.IntEnum):
    ADD_OBJECT = 1
    DROP_OBJECT = 2
    SUBMIT_JOB = 3


class SubList(Structure):
    _fields_ = [("start", ctypes.c_uint32), ("number", ctypes.c_uint32)]


class Submit(Structure):
    """The kernel's structure of a job: native/driver/interface.h."""

    _fields_ = [
        ("flags", ctypes.c_uint32),
        ("timeout", ctypes.c_uint32),
        ("task_start", ctypes.c_uint32),
        ("task_number", ctypes.c_uint32),
        ("task_counter", ctypes.c_uint32),
        ("priority", ctypes.c_int32),
        ("task_object", ctypes.c_uint64),
        ("iommu_domain", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("task_base", ctypes.c_uint64),
        ("elapsed", ctypes.c_int64),
        ("core_mask", ctypes.c_uint32),
        ("fence", ctypes.c_int32),
        ("lists", SubList * SUB_LISTS),
    ]


class Message(Structure):
    """A request: `handle` is that of the object, or of the one that holds a job's tasks."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("handle", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("job", Submit),
    ]


class Answer(Structure):
    """What became of a job: an errno or 0, and how long it took."""

    _fields_ = [
        ("error", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("nanoseconds", ctypes.c_int64),
    ]
