"""Every error code becomes its exception."""

from __future__ import annotations

import numpy as np
import pytest

import anynpu
from anynpu.rknn.abi import ErrorCode
from anynpu.rknn.status import error_for
from anynpu.soft import faults

from .. import models

EXPECTED = {
    "FAIL": (anynpu.CallError, RuntimeError),
    "TIMEOUT": (anynpu.CallTimeoutError, TimeoutError),
    "DEVICE_UNAVAILABLE": (anynpu.DeviceError, RuntimeError),
    "MALLOC_FAIL": (anynpu.OutOfMemoryError, MemoryError),
    "PARAM_INVALID": (anynpu.InvalidArgumentError, ValueError),
    "MODEL_INVALID": (anynpu.InvalidModelError, ValueError),
    "CTX_INVALID": (anynpu.InvalidContextError, RuntimeError),
    "INPUT_INVALID": (anynpu.InvalidArgumentError, ValueError),
    "OUTPUT_INVALID": (anynpu.InvalidArgumentError, ValueError),
    "DEVICE_UNMATCH": (anynpu.DeviceError, RuntimeError),
    "INCOMPATILE_PRE_COMPILE_MODEL": (anynpu.InvalidModelError, anynpu.ModelError),
    "INCOMPATILE_OPTIMIZATION_LEVEL_VERSION": (anynpu.InvalidModelError, anynpu.ModelError),
    "TARGET_PLATFORM_UNMATCH": (anynpu.DeviceError, RuntimeError),
}


def test_the_table_is_complete() -> None:
    named = {code.name for code in ErrorCode}
    assert named - set(EXPECTED) == {"SUCC", "SKIP_CUSTOM_OP_COMPUTE"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_call_that_fails_with_each_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", f"rknn_run={name}")
    faults.reset()
    kind, built_in = EXPECTED[name]
    with anynpu.Model(models.add_one((1, 2))) as model:
        with pytest.raises(kind) as caught:
            model.run(np.zeros((1, 2)))
        assert isinstance(caught.value, built_in)
        assert type(caught.value) is kind
        assert (caught.value.call, caught.value.code) == ("rknn_run", ErrorCode[name])
        assert str(caught.value).startswith(
            f"rknn_run returned RKNN_ERR_{name} ({ErrorCode[name]})"
        )


@pytest.mark.parametrize("code", [-14, -15, 7, 2**31 - 1])
def test_codes_from_other_versions(code: int) -> None:
    error = error_for("rknn_run", code, "more")
    assert type(error) is anynpu.CallError
    assert str(code) in str(error)
    assert str(error).endswith("\nmore")
