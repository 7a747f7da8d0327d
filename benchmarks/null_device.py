"""The null device for Rockchip: what a runtime around it costs, and whether it keeps cores busy."""

from __future__ import annotations

import ctypes
import importlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anynpu

from . import null

PEER = "ztu_somemodelruntime_ez_rknn_async"


@dataclass(frozen=True)
class NullDevice:
    """The built library and a model file for it."""

    library: Path
    model: Path

    def shape(self, image: Sequence[int]) -> None:
        """The (N, C, H, W) shape of the input and output of sessions opened from now on."""
        n, c, h, w = image
        os.environ["NULL_DEVICE_INPUT"] = f"{n},{h},{w},{c}"
        os.environ["NULL_DEVICE_OUTPUT"] = f"{n},{c},{h},{w}"

    def set_output(self, shape: Sequence[int]) -> None:
        """Another shape of the output than the input's."""
        os.environ["NULL_DEVICE_OUTPUT"] = ",".join(map(str, shape))

    def cores(self, *milliseconds: float) -> None:
        """What a run takes on each core from now on."""
        times = ",".join(str(round(each * 1000)) for each in milliseconds)
        os.environ["NULL_DEVICE_CORES"] = times

    def open(self, **options: Any) -> anynpu.InferenceSession:
        """A session of ours on it."""
        return anynpu.InferenceSession(
            self.model, provider_options={"library": self.library, **options}
        )

    def saturate(self, requests: int) -> None:
        """Run requests on all cores with C threads and nothing else; a session has to be open."""
        ctypes.CDLL(str(self.library)).null_device_saturate(ctypes.c_long(requests))

    def open_peer(self, **options: Any) -> Any:
        """A session of EZ RKNN Async on it."""
        peer: Any = importlib.import_module(PEER)
        return peer.InferenceSession(str(self.model), provider_options=options)


@contextmanager
def null_device() -> Iterator[NullDevice]:
    """Build it for the block. The peer loads one library in a process's life: this one."""
    with tempfile.TemporaryDirectory() as folder:
        library = null.build("librknnrt.so", Path(folder))
        os.environ["ZTU_RKNPU2_RUNTIME_LIBRARY"] = str(library)
        model = Path(folder) / "model.rknn"
        model.write_bytes(null.RKNN_MODEL)
        yield NullDevice(library, model)
