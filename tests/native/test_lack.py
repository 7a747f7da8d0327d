"""Where memory or descriptors are lacking: an error each time, and nothing is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anynpu

from .. import models

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer has its own malloc")
@pytest.mark.parametrize("kind", ["allocations", "mappings"])
def test_each_call_fails_once(kind: str, tmp_path: Path, c_compiler: str) -> None:
    library = tmp_path / "failing.so"
    source = Path(__file__).with_name("failing.c")
    command = [c_compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.native.lack", kind],
        env={**os.environ, "LD_PRELOAD": str(library)},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert result.stdout.count("failed one by one") == 5


@pytest.mark.parametrize("kind", ["session", "model"])
def test_no_descriptors_are_left(kind: str) -> None:
    """Opening fails with a typed error; once there are some again it works."""
    values = np.ones((1, 3, 4, 5), np.float32)

    def use() -> None:
        if kind == "session":
            with anynpu.InferenceSession(models.add_one()) as session:
                session.run(None, values)
        else:
            with anynpu.Model(models.add_one()) as model:
                model.run(values)

    use()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        if kind == "model":
            with pytest.raises(anynpu.AnynpuError, match="rknn_create_mem"):
                use()
        else:
            use()  # the general API needs none
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    use()
    assert len(os.listdir("/proc/self/fd")) <= count
