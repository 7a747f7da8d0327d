"""Tables 4-1 and 4-2 on the soft NPU: what each chip refuses, and the small runtime."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import soc as socs
from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import Query
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.abi import TensorType as Type
from anynpu.rknn.library import RknnLibrary, load
from anynpu.soft.cabi.build import library_folder
from anynpu.soft.rknn import IMPLEMENTED

from ... import models
from ...capi import SUCC, attribute, init, opened, query, set_input
from .test_memory import bytes_of
from .test_zero_copy import padded

REFUSED = {"rknn_inputs_set": Code.FAIL, "rknn_outputs_get": Code.FAIL}


def call_with_nothing(npu: RknnLibrary, name: str, context: int) -> int:
    """The code of a function when all it gets is a context (zeros and NULLs otherwise)."""
    function = abi.FUNCTIONS[name]
    if name == "rknn_dup_context":
        source, target = abi.Handle(context), abi.Handle()
        return npu.rknn_dup_context(ctypes.byref(source), ctypes.byref(target))
    kinds = [kind for _, kind in function.arguments]
    is_pointer = [isinstance(kind, type) and issubclass(kind, ctypes._Pointer) for kind in kinds]
    arguments = [None if pointer else 0 for pointer in is_pointer]
    arguments[0] = context
    code: int = getattr(npu, name)(*arguments)
    return code


@pytest.mark.parametrize("chip", socs.SOCS)
def test_table_4_1(npu: RknnLibrary, chip: str) -> None:
    """Matrix products have contexts of their own: test_matmul_life.py has their chips."""
    family = socs.find(chip).family
    context_calls = [
        name
        for name in IMPLEMENTED
        if abi.FUNCTIONS[name].result is ctypes.c_int
        and name not in ("rknn_init", "rknn_destroy")
        and not name.startswith(("rknn_matmul_", "rknn_B_"))
    ]
    with opened(npu, models.add_one(metadata={"anynpu.soc": chip})) as context:
        for name in context_calls:
            families = abi.FUNCTIONS[name].families
            if not families or family in families:
                continue
            expected = REFUSED.get(name, Code.TARGET_PLATFORM_UNMATCH)
            assert call_with_nothing(npu, name, context) == expected, name


CURRENT = {
    Query.CURRENT_INPUT_ATTR: Code.MODEL_INVALID,
    Query.CURRENT_OUTPUT_ATTR: Code.MODEL_INVALID,
    Query.CURRENT_NATIVE_INPUT_ATTR: Code.CTX_INVALID,
    Query.CURRENT_NATIVE_OUTPUT_ATTR: Code.CTX_INVALID,
}


@pytest.mark.parametrize("chip", socs.SOCS)
def test_table_4_2(npu: RknnLibrary, chip: str) -> None:
    family = socs.find(chip).family
    with opened(npu, models.add_one(metadata={"anynpu.soc": chip})) as context:
        for command, rule in abi.QUERIES.items():
            code = query(npu, context, command, rule.structure())
            if family not in rule.families:
                assert code == Code.PARAM_INVALID, command
            elif command is Query.INPUT_DYNAMIC_RANGE:
                assert code == Code.MODEL_INVALID
            elif command in CURRENT:
                assert code == CURRENT[command]  # the model has fixed shapes
            else:
                assert code == SUCC, command


RV1106 = {"anynpu.soc": "rv1106"}


def test_the_small_runtime_s_inputs_are_native(npu: RknnLibrary) -> None:
    with opened(npu, models.quantized((1, 20, 4, 5), metadata=RV1106)) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
        assert attr.fmt == Fmt.NC1HWC2
        assert list(attr.dims[:5]) == [1, 2, 4, 5, 16]


def test_the_general_api_is_refused_with_the_vendor_s_message(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.quantized(metadata=RV1106)) as context:
        assert set_input(npu, context, np.zeros((1, 3, 4, 5), np.float32)) == Code.FAIL
    assert "rknn_inputs_set, context config invalid!" in capfd.readouterr().err


def test_zero_copy_on_rv1106(npu: RknnLibrary) -> None:
    """uint8 pictures in, int8 channel blocks out: what cameras on this chip do."""
    pixels = np.random.default_rng(0).integers(0, 60, (1, 4, 5, 3)).astype(np.uint8)
    with opened(npu, models.quantized(metadata=RV1106)) as context:
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        attr.type = Type.UINT8
        source = npu.rknn_create_mem(context, attr.size_with_stride)
        assert npu.rknn_set_io_mem(context, source, ctypes.byref(attr)) == SUCC
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        target = npu.rknn_create_mem(context, out.size_with_stride)
        assert npu.rknn_set_io_mem(context, target, ctypes.byref(out)) == SUCC
        bytes_of(source)[:] = padded(pixels, attr.w_stride).ravel()
        assert npu.rknn_run(context, None) == SUCC
        raw = bytes_of(target).view(np.int8).reshape(out.dims[:5])
        found = anynpu.nc1hwc2_to_nchw(raw, 3)
    expected = np.clip(pixels.astype(int) * 2 - 3, -3, 127).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found, expected)


def test_rv1106_converts_no_inputs(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.quantized(metadata=RV1106)) as context:
        memory = npu.rknn_create_mem(context, 4096)

        def bind(**fields: int) -> int:
            attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
            for name, value in fields.items():
                setattr(attr, name, value)
            return npu.rknn_set_io_mem(context, memory, ctypes.byref(attr))

        assert bind(type=Type.FLOAT32) == Code.PARAM_INVALID
        log = capfd.readouterr().err
        assert "rknn_set_io_mem, input(x) tensor type must be: INT8, but is: FLOAT32" in log
        assert bind(type=Type.UINT8, fmt=Fmt.NCHW) == Code.PARAM_INVALID
        assert bind(type=Type.UINT8) == SUCC


@pytest.mark.parametrize(
    ("command", "axes"),
    [(Query.OUTPUT_ATTR, (0, 1, 2, 3)), (Query.NATIVE_NHWC_OUTPUT_ATTR, (0, 2, 3, 1))],
)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_rv1106_converts_outputs(
    npu: RknnLibrary, command: Query, axes: tuple[int, ...], dtype: type[np.generic]
) -> None:
    """Table 5-7 of the user guide, and the float32 of the vendor's example for this chip."""
    pixels = np.random.default_rng(0).integers(0, 60, (1, 4, 5, 3)).astype(np.uint8)
    with opened(npu, models.quantized(metadata=RV1106)) as context:
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        attr.type = Type.UINT8
        source = npu.rknn_create_mem(context, attr.size_with_stride)
        assert npu.rknn_set_io_mem(context, source, ctypes.byref(attr)) == SUCC
        out = attribute(npu, context, command)
        out.type = Type[np.dtype(dtype).name.upper()]
        out.size = out.n_elems * np.dtype(dtype).itemsize
        target = npu.rknn_create_mem(context, out.size)
        assert npu.rknn_set_io_mem(context, target, ctypes.byref(out)) == SUCC
        bytes_of(source)[:] = padded(pixels, attr.w_stride).ravel()
        assert npu.rknn_run(context, None) == SUCC
        found = bytes_of(target).view(dtype).reshape(out.dims[:4]).copy()
    raw = np.clip(pixels.astype(int) * 2 - 3, -3, 127).transpose(0, 3, 1, 2)
    expected = raw if dtype is np.int8 else (raw + 3) * 0.5
    np.testing.assert_array_equal(found, expected.transpose(axes))


@pytest.fixture(scope="module")
def small_runtime(_own_cache: None) -> Path:
    return library_folder(socs.find("rv1106")) / "librknnmrt.so"


def test_the_small_runtime_exports_exactly_its_functions(small_runtime: Path) -> None:
    result = subprocess.run(
        ["nm", "-D", "--defined-only", small_runtime], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in result.stdout.splitlines()}
    mini = {name for name, function in abi.FUNCTIONS.items() if function.in_librknnmrt}
    own = {"anynpu_soft_npu", "anynpu_soft_start_1", "la_version", "la_objsearch"}
    assert exported == mini | own
    assert len(mini) == 20


def test_the_small_runtime_has_narrow_handles(small_runtime: Path) -> None:
    """A client that declares handles with 32 bits: nothing beyond them is written or read."""
    program = f"""
import ctypes
library = ctypes.CDLL({str(small_runtime)!r})
model = {models.quantized()!r}
handles = (ctypes.c_uint32 * 2)(5, 0xCAFE)
pointer, number = ctypes.c_void_p, ctypes.c_uint32
library.rknn_init.argtypes = (pointer, ctypes.c_char_p, number, number, pointer)
assert library.rknn_init(ctypes.addressof(handles), model, len(model), 0, None) == 0
assert handles[1] == 0xCAFE and handles[0] > 0
library.rknn_destroy.argtypes = (ctypes.c_uint64,)
assert library.rknn_destroy(0xDEAD00000000 | handles[0]) == 0
print("fine")
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.returncode) == ("fine\n", 0), result.stderr


def test_the_environment_chooses_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "rv1103")
    small = load("soft")
    assert not small.has("rknn_set_core_mask")
    assert init(small, models.add_one(metadata={"anynpu.soc": "rk3588"}))[0] == (
        Code.TARGET_PLATFORM_UNMATCH
    )
    with anynpu.Model(models.quantized()) as model:
        model.run(np.full((1, 4, 5, 3), 9, np.uint8))
        assert (model.output_f32(0) == 9).all()
        assert "librknnmrt" not in model.library.path
    monkeypatch.delenv("ANYNPU_SOC")
    assert load("soft").has("rknn_set_core_mask")
    assert os.environ["ANYNPU_DEVICE"] == "soft"
