"""The folder with foreign files that tests and benchmarks read where it is there.

``$ANYNPU_SHARED`` names it; without it, it is `shared` beside the repository. Who needs a file that
isn't there skips and says so.
"""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(os.environ.get("ANYNPU_SHARED") or Path(__file__).resolve().parents[2] / "shared")

SAMPLES = SHARED / "samples" / "rknn"
"""Compiled files with their inputs and outputs, a folder a chip."""

NBG_SAMPLES = SHARED / "samples" / "nbg"
"""Allwinner's compiled files."""

VENDOR_RUNTIME = SHARED / "prototypes" / "vendor-runtime" / "vendor"
"""The vendor's runtime, and files compiled for it."""
