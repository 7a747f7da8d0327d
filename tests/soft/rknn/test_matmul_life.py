"""Matrix products over time: memory that changes, shapes, threads, misuse, the end."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from typing import Any

import numpy as np
import psutil
import pytest

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary, load
from anynpu.soft.rknn import contexts

from ... import models
from ...capi import init
from ...matmul import (
    NATIVE,
    NORM,
    SUCC,
    TP_NORM,
    TYPES,
    Client,
    T,
    assert_is,
    magnitudes,
    shapes_of,
    sums,
    types_of,
    values,
)

ERROR = abi.ErrorCode
RNG = np.random.default_rng(0)
SHAPE = (4, 64, 64)


def matrices(
    kind: abi.MatmulType, shape: tuple[int, int, int] = SHAPE
) -> tuple[np.ndarray, np.ndarray]:
    m, k, n = shape
    a_type, b_type, _ = types_of(kind)
    return values(RNG, a_type, (m, k)), values(RNG, b_type, (k, n))


@pytest.mark.parametrize("kind", TYPES["rk3588"])
@pytest.mark.parametrize("layout", [NORM, NATIVE, TP_NORM])
def test_what_is_written_between_runs_counts(
    npu: RknnLibrary, kind: abi.MatmulType, layout: abi.MatmulLayout
) -> None:
    """Without another rknn_matmul_set_io_mem, which the guide asks for: never an old result."""
    with Client(npu, "rk3588", kind, SHAPE, layout) as client:
        a, b = matrices(kind)
        client.put(a, b)
        for _ in range(3):
            assert client.run() == SUCC
            assert_is(client.result(), sums(a, b), types_of(kind)[2], magnitudes(a, b))
            _, b = matrices(kind)
            client.write("B", client.encoded_b(b))
        b[-1, -1] += 1
        client.write("B", client.encoded_b(b))
        assert client.run() == SUCC
        assert_is(client.result(), sums(a, b), types_of(kind)[2], magnitudes(a, b))


def test_strict_memory_needs_to_be_set_again(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    a, b = matrices(T(2))
    with Client(npu, "rk3588", T(2), SHAPE, NATIVE) as client:
        assert_is(client.multiply(a, b), sums(a, b), "INT32")
        other, _ = matrices(T(2))
        client.write("A", client.encoded_a(other))
        assert client.run() == SUCC
        assert_is(client.result(), sums(a, b), "INT32")
        assert client.set("A") == SUCC
        assert client.run() == SUCC
        assert_is(client.result(), sums(other, b), "INT32")


@pytest.mark.parametrize("layout", [NORM, NATIVE, TP_NORM])
def test_shapes_with_another_m(npu: RknnLibrary, layout: abi.MatmulLayout) -> None:
    """B is set once, as the vendor's demo does."""
    more = ((1, 64, 64), (9, 64, 64))
    with Client(npu, "rk3588", T(2), SHAPE, layout, NATIVE, more_shapes=more) as client:
        a, b = matrices(T(2))
        assert_is(client.multiply(a, b), sums(a, b), "INT32")
        for number, shape in enumerate(more, 1):
            assert client.select(number) == SUCC
            assert client.run() == ERROR.INPUT_INVALID, "A belongs to the shape before"
            a, _ = matrices(T(2), shape)
            client.write("A", client.encoded_a(a))
            assert (client.set("A"), client.set("C")) == (SUCC, SUCC)
            assert client.run() == SUCC
            assert_is(client.result(), sums(a, b), "INT32")


def test_shapes_with_another_k_and_n(npu: RknnLibrary) -> None:
    more = ((2, 128, 32),)
    with Client(npu, "rk3588", T(1), SHAPE, NATIVE, more_shapes=more) as client:
        for number, shape in enumerate((SHAPE, *more)):
            assert client.select(number) == SUCC
            a, b = matrices(T(1), shape)
            assert_is(client.multiply(a, b), sums(a, b), "FLOAT32", magnitudes(a, b))


def test_the_name_of_2_0_0(npu: RknnLibrary) -> None:
    info = abi.MatmulInfo(type=T(2))
    shapes = shapes_of((1, 32, 32), (2, 32, 32))
    handle, attrs = abi.Handle(), (abi.MatmulIoAttr * 2)()
    create = npu.rknn_matmul_create_dyn_shape
    assert create(ctypes.byref(handle), ctypes.byref(info), 2, shapes, attrs) == SUCC
    assert [attr.A.size for attr in attrs] == [32, 64]
    assert npu.rknn_matmul_destroy(handle.value) == SUCC


def test_shapes_that_are_refused(npu: RknnLibrary) -> None:
    info = abi.MatmulInfo(type=T(2))
    shapes = shapes_of((1, 32, 32), (0, 32, 32))
    handle, attrs = abi.Handle(5), (abi.MatmulIoAttr * 2)()
    create = npu.rknn_matmul_create_dynamic_shape
    for count, listed in ((2, shapes), (0, shapes), (-1, shapes), (513, shapes), (1, None)):
        code = create(ctypes.byref(handle), ctypes.byref(info), count, listed, attrs)
        assert (code, handle.value) == (ERROR.PARAM_INVALID, 0)
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        select = client.npu.rknn_matmul_set_dynamic_shape
        assert select(client.context, None) == ERROR.PARAM_INVALID
        for shape, code in ((SHAPE, SUCC), ((5, 64, 64), ERROR.PARAM_INVALID)):
            assert select(client.context, ctypes.byref(abi.MatmulShape(*shape))) == code


LIMITS = [
    ("rk3588", 2, (4, 33, 32), {}, "K(33) of INT8 on rk3588 must be a positive multiple of 32"),
    ("rk3588", 2, (4, 32, 16), {}, "N(16) of INT8 on rk3588 must be a positive multiple of 32"),
    ("rk3588", 10, (4, 32, 32), {}, "N(32) of INT4 on rk3588 must be a positive multiple of 64"),
    ("rk3588", 1, (4, 32, 8), {}, "N(8) of FLOAT16 on rk3588 must be a positive multiple of 16"),
    ("rk3588", 2, (0, 32, 32), {}, "M(0) must be positive"),
    ("rk3588", 2, (-1, 32, 32), {}, "M(-1) must be positive"),
    ("rk3588", 2, (1, 0, 32), {}, "K(0) of INT8"),
    ("rk3588", 2, (1, 32, -32), {}, "N(-32) of INT8"),
    ("rk3588", 2, (2**26, 64, 32), {}, "matrix A takes 4294967296 bytes"),
    ("rk3566", 1, (4, 16, 8200), {}, "N(8200) of FLOAT16 on rk3566 must be <= 4096"),
    ("rk3568", 2, (4, 10272, 16), {}, "K(10272) of INT8 on rk3568 must be <= 10240"),
    ("rk3562", 2, (4, 10272, 16), {}, "K(10272) of INT8 on rk3562 must be <= 10240"),
    (
        "rk3566",
        2,
        (4, 32, 16),
        {"B_layout": 2},
        "B_layout RKNN_MM_LAYOUT_TP_NORM is not supported",
    ),
    ("rk3588", 2, (4, 32, 32), {"AC_layout": 2}, "AC_layout RKNN_MM_LAYOUT_TP_NORM"),
    ("rk3588", 2, (4, 32, 32), {"AC_layout": 3}, "AC_layout(3) is unknown"),
    ("rk3588", 2, (4, 32, 32), {"B_layout": -1}, "B_layout(-1) is unknown"),
    ("rk3588", 2, (4, 32, 32), {"B_quant_type": 6}, "B_quant_type(6) is unknown"),
    ("rk3588", 2, (4, 32, 32), {"AC_quant_type": 2}, "AC_quant_type RKNN_QUANT_TYPE_PER_CHANNEL"),
    ("rk3588", 13, (4, 32, 32), {}, "type(13) is unknown"),
    ("rk3588", 5, (4, 32, 32), {}, "unsupported matmul dtype : RKNN_FLOAT16_MM_INT8_TO_FLOAT32"),
    ("rk3562", 10, (4, 32, 64), {}, "unsupported matmul dtype : RKNN_INT4_MM_INT4_TO_INT16"),
    (
        "rk3588",
        9,
        (4, 32, 32),
        {"B_quant_type": 2},
        "B_quant_type = RKNN_QUANT_TYPE_PER_CHANNEL",
    ),
    ("rk3588", 2, (4, 32, 32), {"B_quant_type": 4}, "B_quant_type = RKNN_QUANT_TYPE_PER_GROUP_SYM"),
    ("rk3588", 9, (4, 32, 32), {"B_quant_type": 4}, "group_size(0) must be positive and divide"),
    ("rk3588", 9, (4, 32, 32), {"B_quant_type": 5, "group_size": 24}, "group_size(24) must be"),
]


@pytest.mark.parametrize(("soc", "number", "shape", "fields", "message"), LIMITS)
def test_limits_are_told(
    npu: RknnLibrary,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    soc: str,
    number: int,
    shape: tuple[int, int, int],
    fields: dict[str, int],
    message: str,
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", soc)
    info = abi.MatmulInfo(*shape, number, **fields)
    handle, attr = abi.Handle(5), abi.MatmulIoAttr()
    code = npu.rknn_matmul_create(ctypes.byref(handle), ctypes.byref(info), ctypes.byref(attr))
    assert (code, handle.value) == (ERROR.PARAM_INVALID, 0)
    assert f"rknn_matmul_create, {message}" in capfd.readouterr().err


def test_null_pointers_to_create(npu: RknnLibrary) -> None:
    info, handle, attr = abi.MatmulInfo(1, 32, 32, 2), abi.Handle(), abi.MatmulIoAttr()
    arguments = (ctypes.byref(handle), ctypes.byref(info), ctypes.byref(attr))
    for missing in range(3):
        given = [*arguments[:missing], None, *arguments[missing + 1 :]]
        code = ERROR.PARAM_INVALID if missing else ERROR.CTX_INVALID
        assert npu.rknn_matmul_create(*given) == code


def test_misuse_of_memory(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        call, context, attr = npu.rknn_matmul_set_io_mem, client.context, client.attr
        assert call(context, None, ctypes.byref(attr.A)) == ERROR.PARAM_INVALID
        assert call(context, client.mems["A"], None) == ERROR.PARAM_INVALID
        assert call(context, client.mems["A"], ctypes.byref(attr.B)) == ERROR.PARAM_INVALID
        assert "has 256 bytes; 4096 are needed for INT8 (64, 64)" in capfd.readouterr().err
        wrong = abi.MatmulTensorAttr(name=b"D", size=256)
        assert call(context, client.mems["A"], ctypes.byref(wrong)) == ERROR.PARAM_INVALID
        wrong = abi.MatmulTensorAttr(name=b"A", size=255)
        assert call(context, client.mems["A"], ctypes.byref(wrong)) == ERROR.PARAM_INVALID


@pytest.mark.parametrize(
    ("name", "code"),
    [("A", ERROR.INPUT_INVALID), ("B", ERROR.INPUT_INVALID), ("C", ERROR.OUTPUT_INVALID)],
)
def test_a_run_needs_all_three(npu: RknnLibrary, name: str, code: int) -> None:
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        for other in "ABC".replace(name, ""):
            assert client.set(other) == SUCC
        assert client.run() == code
        assert client.set(name) == SUCC
        assert client.run() == SUCC
        assert npu.rknn_destroy_mem(client.context, client.mems.pop(name)) == SUCC
        assert client.run() == code, "its memory was destroyed"


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_other_memory_after_a_run(npu: RknnLibrary, name: str) -> None:
    with Client(npu, "rk3588", T(2), SHAPE, NATIVE) as client:
        a, b = matrices(T(2))
        client.multiply(a, b)
        before = client.mems[name]
        client.mems[name] = npu.rknn_create_mem(client.context, 2**20)
        a, b = matrices(T(2))
        assert_is(client.multiply(a, b), sums(a, b), "INT32")
        assert npu.rknn_destroy_mem(client.context, before) == SUCC
        assert client.run() == SUCC
        assert_is(client.result(), sums(a, b), "INT32")


def test_other_zero_points_after_a_run(npu: RknnLibrary) -> None:
    kind = abi.MatmulQuantization.PER_LAYER_ASYM
    with Client(npu, "rk3588", T(2), SHAPE, b_quantization=kind) as client:
        a, b = matrices(T(2))
        for zero_point in (0, 3, 0):
            assert client.scale("B", 1, zero_point) == SUCC
            expected = a.astype(np.int64) @ (b.astype(np.int64) - zero_point)
            assert_is(client.multiply(a, b), expected, "INT32")


def test_memory_of_any_kind(npu: RknnLibrary) -> None:
    """Larger than needed, without a context, and a part of another one's."""
    a, b = matrices(T(2))
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        client.put(a, b)
        large: Any = npu.rknn_create_mem2(0, 8192, abi.MemoryFlag.ALLOC_NO_CONTEXT)
        part = npu.rknn_create_mem_from_fd(
            client.context, large.contents.fd, large.contents.virt_addr, 256, 4096
        )
        data = client.encoded_a(a[::-1])
        ctypes.memmove(large.contents.virt_addr + 4096, data, len(data))
        attr = ctypes.byref(client.attr.A)
        assert npu.rknn_matmul_set_io_mem(client.context, part, attr) == SUCC
        assert client.run() == SUCC
        assert_is(client.result(), sums(a[::-1], b), "INT32")
        assert npu.rknn_mem_sync(client.context, large, abi.SyncMode.TO_DEVICE) == SUCC
        for mem in (part, large):
            assert npu.rknn_destroy_mem(client.context, mem) == SUCC


def test_handles_of_another_kind(npu: RknnLibrary) -> None:
    code, model = init(npu, models.add_one())
    assert code == SUCC
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        invalid = ERROR.CTX_INVALID
        assert npu.rknn_run(client.context, None) == invalid
        assert npu.rknn_query(client.context, 0, ctypes.byref(abi.InputOutputNum()), 8) == invalid
        version = abi.SdkVersion()
        size = ctypes.sizeof(version)
        assert npu.rknn_query(client.context, 5, ctypes.byref(version), size) == SUCC
        assert version.api_version.startswith(b"2.3.2")
        assert npu.rknn_matmul_run(model) == invalid
        assert npu.rknn_matmul_destroy(model) == invalid
        assert npu.rknn_matmul_set_core_mask(model, 0) == invalid
        assert npu.rknn_matmul_run(12345) == invalid
    assert npu.rknn_matmul_destroy(client.context) == invalid, "destroyed before"
    assert npu.rknn_matmul_run(client.context) == invalid
    assert npu.rknn_destroy(model) == SUCC


def test_destroying_frees_the_memory(npu: RknnLibrary) -> None:
    client = Client(npu, "rk3588", T(2), SHAPE)
    assert client.create() == SUCC
    mem = npu.rknn_create_mem(client.context, 4096)
    assert mem
    assert npu.rknn_destroy(client.context) == SUCC, "as any context"
    assert npu.rknn_destroy_mem(client.context, mem) == ERROR.CTX_INVALID


@pytest.mark.parametrize(
    ("soc", "masks"), [("rk3588", {0, 1, 2, 4}), ("rk3576", {0, 1, 2}), ("rk3566", set())]
)
def test_core_masks(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, soc: str, masks: set[int]
) -> None:
    """One core at a time, as the vendor's runtime has it, and none on chips with one."""
    monkeypatch.setenv("ANYNPU_SOC", soc)
    a, b = matrices(T(2))
    with Client(npu, soc, T(2), SHAPE) as client:
        for mask in (0, 1, 2, 3, 4, 5, 7, 0xFFFF, 0x10000, -1):
            code = npu.rknn_matmul_set_core_mask(client.context, mask)
            assert code == (SUCC if mask in masks else ERROR.FAIL)
            if code == SUCC:
                assert_is(client.multiply(a, b), sums(a, b), "INT32")
                cores = contexts.CONTEXTS.find(client.context).last_cores
                assert cores == ({mask.bit_length() - 1} if mask else {0})


def test_the_model_clock(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product takes as long as the chip is estimated to need."""
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "model")
    # 64 MB of B take RK3588 some 6 ms to read.
    with Client(npu, "rk3588", T(2), (1, 4096, 16384)) as client:
        assert [client.set(name) for name in "ABC"] == [SUCC] * 3
        start = time.perf_counter()
        assert client.run() == SUCC
        assert time.perf_counter() - start > 0.006


def test_chips_without_matrix_products(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    for soc in ("rv1106", "z80"):
        monkeypatch.setenv("ANYNPU_SOC", soc)
        assert Client(npu, soc, T(2), SHAPE).create() == ERROR.TARGET_PLATFORM_UNMATCH
        memory = ctypes.create_string_buffer(1024)
        convert = npu.rknn_B_normal_layout_to_native_layout
        assert convert(memory, memory, 32, 32, 32, 32, 2) == ERROR.TARGET_PLATFORM_UNMATCH


def test_any_iommu_domain(npu: RknnLibrary) -> None:
    info, handle, attr = abi.MatmulInfo(1, 32, 32, 2), abi.Handle(), abi.MatmulIoAttr()
    for domain in (0, 15, -1, 2**31 - 1):
        info.iommu_domain_id = domain
        arguments = (ctypes.byref(handle), ctypes.byref(info), ctypes.byref(attr))
        assert npu.rknn_matmul_create(*arguments) == SUCC
        assert npu.rknn_matmul_destroy(handle.value) == SUCC


@pytest.mark.parametrize("kind", [T(1), T(2), T(10)])
def test_many_contexts_leave_nothing_behind(kind: abi.MatmulType) -> None:
    npu = load("soft")
    shape = (9, 128, 256)
    a, b = matrices(kind, shape)

    def use() -> None:
        with Client(npu, "rk3588", kind, shape, NORM) as client:
            client.multiply(a, b)

    for _ in range(20):
        use()
    process = psutil.Process()
    gc.collect()
    memory, descriptors = process.memory_info().rss, process.num_fds()
    for _ in range(200):
        use()
    gc.collect()
    assert process.num_fds() <= descriptors
    assert process.memory_info().rss - memory < 8 * 2**20


def test_many_runs_leave_nothing_behind() -> None:
    npu = load("soft")
    a, b = matrices(T(2))
    with Client(npu, "rk3588", T(2), SHAPE, NATIVE, NATIVE) as client:
        client.put(a, b)
        for _ in range(300):
            assert client.run() == SUCC
        gc.collect()
        gc.disable()
        try:
            memory = psutil.Process().memory_info().rss
            for _ in range(3000):
                assert client.run() == SUCC
            assert psutil.Process().memory_info().rss - memory < 4 * 2**20
        finally:
            gc.enable()


def test_threads_with_contexts_of_their_own(npu: RknnLibrary) -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kind = TYPES["rk3588"][seed % 6]
        a_type, b_type, c_type = types_of(kind)
        with Client(npu, "rk3588", kind, SHAPE, NATIVE) as client:
            for _ in range(20):
                a, b = values(rng, a_type, (4, 64)), values(rng, b_type, (64, 64))
                try:
                    assert_is(client.multiply(a, b), sums(a, b), c_type, magnitudes(a, b))
                except AssertionError as error:
                    failures.append(str(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_on_one_context(npu: RknnLibrary) -> None:
    """Calls take turns; destroying it in between ends them with a code."""
    a, b = matrices(T(2))
    client = Client(npu, "rk3588", T(2), SHAPE)
    client.__enter__()
    client.put(a, b)
    codes: list[int] = []

    def run() -> None:
        for _ in range(200):
            codes.append(client.run())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(codes) < 100:
        time.sleep(0.001)
    assert npu.rknn_matmul_destroy(client.context) == SUCC
    for thread in threads:
        thread.join()
    assert set(codes) <= {SUCC, ERROR.CTX_INVALID}
    assert codes.count(SUCC) >= 99


NORMAL_TO_NATIVE = [
    ((None, 1, 32, 32), "a pointer to B is NULL"),
    ((1, None, 32, 32), "a pointer to B is NULL"),
    ((1, 1, 0, 32), "K(0)"),
    ((1, 1, 32, -1), "N(-1)"),
    ((1, 1, 31, 32), "K(31)"),
]


@pytest.mark.parametrize(("arguments", "message"), NORMAL_TO_NATIVE)
def test_misuse_of_the_layout_function(
    npu: RknnLibrary,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[int | None, int | None, int, int],
    message: str,
) -> None:
    memory = ctypes.create_string_buffer(4096)
    source, target, k, n = arguments
    pointers = [memory if pointer else None for pointer in (source, target)]
    info = abi.MatmulInfo(type=T(2))
    convert = npu.rknn_B_normal_layout_to_native_layout
    for tail in ((ctypes.addressof(info), 0, 0), (32, 32, 2)):
        assert convert(*pointers, k, n, *tail) == ERROR.PARAM_INVALID
        assert message in capfd.readouterr().err


def test_blocks_that_are_none(npu: RknnLibrary) -> None:
    memory = ctypes.create_string_buffer(4096)
    convert = npu.rknn_B_normal_layout_to_native_layout
    for tail in ((None, 32, 2), (0, 0, 2), (32, -32, 2), (32, 33, 2), (32, 32, 0), (32, 32, 13)):
        assert convert(memory, memory, 32, 32, *tail) == ERROR.PARAM_INVALID
    info = abi.MatmulInfo(type=99)
    code = convert(memory, memory, 32, 32, ctypes.addressof(info), 0, 0)
    assert code == ERROR.PARAM_INVALID
