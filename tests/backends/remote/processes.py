"""`anynpu serve` in processes of their own, on the null device: boards to be killed and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import null

from .scripted import free_port

SHAPE = (1, 3, 8, 8)
"""Of the null device's input, whose first value is its output's everywhere."""


class Board:
    """A server of the model ``m``; `milliseconds` are what runs take on each of a null device's
    cores.
    """

    def __init__(
        self, model: Path, library: str, *arguments: str, milliseconds: Sequence[float] = ()
    ) -> None:
        self.grpc, self.http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self._command = [
            sys.executable, "-m", "anynpu.cli", "serve", f"m={model}", "--library", library,
            "--grpc", self.grpc, "--http", self.http, *arguments,
        ]  # fmt: skip
        n, c, h, w = SHAPE
        self._environment = os.environ | {
            "NULL_DEVICE_INPUT": f"{n},{h},{w},{c}",
            "NULL_DEVICE_OUTPUT": "1,3,4,4",
            "NULL_DEVICE_CORES": ",".join(str(round(1000 * each)) for each in milliseconds),
        }
        self.start()

    @property
    def address(self) -> str:
        return f"grpc://{self.grpc}/m"

    def start(self) -> None:
        """Serve, on the same ports as before; it serves once this returns."""
        self.process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        if not any(line.startswith("serving on") for line in self.process.stdout):
            raise AssertionError(f"the server ended with {self.process.wait()}")

    def send(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def null_model(folder: Path) -> Path:
    """The folder with the null device and a model for it."""
    null.build("librknnrt.so", folder)
    (folder / "model.rknn").write_bytes(null.RKNN_MODEL)
    return folder
