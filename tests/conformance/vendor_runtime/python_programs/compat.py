"""Other packages' interfaces."""

from __future__ import annotations

from typing import Any

import numpy as np

import anynpu.compat.ez_rknn_async as ez
from anynpu.compat.rknnlite import RKNNLite


def rknnlite(path: str) -> dict[str, Any]:
    """A script of rknn-toolkit-lite2."""
    lite = RKNNLite()
    codes = [lite.load_rknn(path), lite.init_runtime(core_mask=RKNNLite.NPU_CORE_0)]
    picture = np.random.default_rng(4).integers(0, 100, (1, 16, 16, 16)).astype(np.float32)
    outputs = lite.inference(inputs=[picture])
    version = lite.get_sdk_version()
    lite.release()
    assert outputs is not None
    return {"codes": np.array(codes), "output": outputs[0], "version": version}


def ez_rknn_async(path: str) -> dict[str, Any]:
    """A script of EZ RKNN Async."""
    session = ez.InferenceSession(path, provider_options=[{"layout": "nhwc"}])
    picture = np.random.default_rng(4).integers(0, 100, (1, 16, 16, 16)).astype(np.float32)
    found = session.run(None, {session.input_names[0]: picture})
    return {"output": found[0]}
