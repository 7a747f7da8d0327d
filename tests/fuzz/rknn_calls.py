"""Calls of the RKNN C API without sense: any order, any handles, sizes, flags and pointers.

What a call gets is NULL, or points to memory of the size that it is told. A board would crash of
some of it; the soft NPU answers each call with a code.
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.device_memory import strict
from anynpu.soft.formats.rknn import write_soft

from .. import models
from ..capi import SUCC
from ..matmul import shapes_of
from .compiled_files import files

KNOWN_CODES = set(abi.ErrorCode)
_COMPILED = (
    "rk3588_min_constant_int8",
    "rk3588_average_row_float16",
    "rk3562_two_inputs_i8.rknn",
    "rv1106_leaky_int8",
    "rk3588_batch_float16",
)
"""Compiled files that take no time: several inputs, a batch, several chips."""


@cache
def valid() -> tuple[bytes, ...]:
    """Sound files of all kinds."""
    compiled = dict(files())
    return (*_SOFT, *(compiled[name] for name in _COMPILED))


_SOFT = [
    models.add_one(),
    models.dynamic(),
    models.add_one(metadata={"anynpu.soc": "rv1106"}),
    models.quantized(),
    models.two_inputs(),
    models.convolution(),
    models.custom(axis=1, mode="text"),
    models.custom("Abs", floats=[1.0, 2.0]),
    write_soft(
        models.add_one(), target="rk3588", toolkit="t", inputs=[("x", (1,))], outputs=[("y", (1,))]
    ),
]


class RknnCalls:
    """Calls with random arguments: pointers are NULL or to memory of the size that is passed."""

    def __init__(self, npu: RknnLibrary, seed: int) -> None:
        self.npu = npu
        self.random = random.Random(seed)
        self.handles: list[int] = []
        self.products: dict[int, Any] = {}
        self.mems: list[Any] = []
        self.stale: list[Any] = []
        self.memory = np.zeros(1 << 16, np.uint8)
        self.thread = threading.get_ident()
        self.running = 0
        self.callbacks = [abi.CustomOpCallback(self.callback) for _ in range(2)]
        self.destroy_callback = abi.CustomOpDestroyCallback(lambda _: self.integer())
        self.descriptor = os.memfd_create("fuzz")
        os.ftruncate(self.descriptor, 8192)

    # ------------------------------------------------------------------------------ arguments

    def integer(self) -> int:
        edge = [0, 1, 2, 3, -1, 5, 16, 2**31 - 1, -(2**31), 0x10000]
        return self.random.choice(edge)

    def count(self) -> int:
        return self.random.choice([0, 1, 2, 2**32 - 1])

    def handle(self) -> int:
        choices = [0, 7, 2**64 - 1, self.random.getrandbits(64)]
        return self.random.choice(self.handles + self.handles + choices)

    def address(self) -> int | None:
        return self.random.choice([None, self.memory.ctypes.data])

    def mem(self) -> Any:
        made_up = ctypes.pointer(abi.TensorMem(size=100))
        return self.random.choice([*self.mems[-5:], *self.stale[-2:], made_up, None])

    def attr(self) -> Any:
        attr = abi.TensorAttr(
            index=self.random.choice([0, 0, 1, self.count()]),
            n_dims=self.random.choice([4, 4, 0, 16, 17, 2**32 - 1]),
            name=self.random.choice([b"x", b"y", b"a", b"", b"nothing"]),
            fmt=self.random.choice([0, 1, 2, 3, self.integer()]),
            type=self.random.choice([0, 1, 2, 3, self.integer()]),
            pass_through=self.random.choice([0, 0, 1]),
            h_stride=self.random.choice([0, 0, 7, 2**31]),
            w_stride=self.count(),
        )
        attr.dims[:4] = self.random.choice([(1, 8, 8, 3), (1, 12, 16, 3), (0, 0, 0, 0)])
        return self.random.choice([ctypes.pointer(attr), ctypes.pointer(attr), None])

    # ---------------------------------------------------------------------------------- calls

    def init(self) -> int:
        context, extend = abi.Handle(), abi.InitExtend(ctx=self.handle())
        model = self.random.choice(valid())
        if self.random.random() < 0.3:
            model = model[: self.random.randrange(1, len(model))]
        code = self.npu.rknn_init(
            ctypes.byref(context),
            model,
            len(model),
            self.random.getrandbits(17) if self.random.random() < 0.5 else 0,
            self.random.choice([None, ctypes.byref(extend)]),
        )
        if code == SUCC:
            self.handles.append(context.value)
        return code

    def dup_context(self) -> int:
        source, target = abi.Handle(self.handle()), abi.Handle()
        code = self.npu.rknn_dup_context(
            self.random.choice([None, ctypes.byref(source), ctypes.byref(source)]),
            self.random.choice([None, ctypes.byref(target), ctypes.byref(target)]),
        )
        if code == SUCC:
            self.handles.append(target.value)
        return code

    def destroy(self) -> int:
        handle = self.handle()
        if handle in self.handles:
            if len(self.handles) < 4:
                return SUCC
            self.handles.remove(handle)
            self.products.pop(handle, None)
        return self.npu.rknn_destroy(handle)

    def query(self) -> int:
        size = self.random.choice([0, 8, 16, 64, 372, 376, 512, 1024, 33040, len(self.memory)])
        command = self.random.choice([self.integer(), self.random.randrange(18)])
        return self.npu.rknn_query(self.handle(), command, self.address(), size)

    def inputs_set(self) -> int:
        inputs = (abi.Input * 2)()
        for given_input in inputs:
            given_input.index = self.random.choice([0, 1, self.count()])
            given_input.buf = self.address()
            given_input.size = self.random.choice([0, 10, 240, len(self.memory)])
            given_input.pass_through = self.random.choice([0, 0, 1, 255])
            given_input.type = self.random.choice([0, 1, 2, 3, self.integer()])
            given_input.fmt = self.random.choice([0, 1, 2, 3, self.integer()])
        pointer = self.random.choice([inputs, inputs, None])
        return self.npu.rknn_inputs_set(self.handle(), self.count(), pointer)

    def run(self) -> int:
        extend = abi.RunExtend(
            self.random.getrandbits(64),
            self.random.choice([0, 0, 1]),
            self.random.choice([0, 0, 1000, -1]),
            self.integer(),
        )
        self.running = self.handle()
        return self.npu.rknn_run(self.running, self.random.choice([None, ctypes.byref(extend)]))

    def wait(self) -> int:
        return self.npu.rknn_wait(self.handle(), None)

    def outputs_get(self) -> int:
        outputs = (abi.Output * 2)()
        for output in outputs:
            output.want_float = self.random.choice([0, 1, 255])
            output.is_prealloc = self.random.choice([0, 1])
            output.index = self.random.choice([0, 1, self.count()])
            output.buf = self.address()
            output.size = self.random.choice([0, 10, 240, len(self.memory)])
        pointer = self.random.choice([outputs, outputs, None])
        return self.npu.rknn_outputs_get(self.handle(), self.count(), pointer, None)

    def outputs_release(self) -> int:
        outputs = (abi.Output * 2)()
        for output in outputs:
            output.is_prealloc = self.random.choice([0, 1])
            output.buf = self.address()
        pointer = self.random.choice([outputs, None])
        return self.npu.rknn_outputs_release(self.handle(), self.count(), pointer)

    def set_core_mask(self) -> int:
        return self.npu.rknn_set_core_mask(self.handle(), self.integer())

    def set_batch_core_num(self) -> int:
        return self.npu.rknn_set_batch_core_num(self.handle(), self.integer())

    def set_input_shapes(self) -> int:
        self.running = self.handle()
        return self.npu.rknn_set_input_shapes(self.running, self.count() & 1, self.attr())

    def set_input_shape(self) -> int:
        return self.npu.rknn_set_input_shape(self.handle(), self.attr())

    def create(self) -> int:
        # Strict buffers have a copy that is touched at once; the others are not there until used.
        largest = 2**20 if strict() else 2**31
        size = self.random.choice([0, 1, 240, 5000, 2**18, largest])
        flags = self.random.choice([0, 1, 2, 4, 0x20000, self.random.getrandbits(32)])
        makers: list[Callable[[], Any]] = [
            lambda: self.npu.rknn_create_mem(self.handle(), size),
            lambda: self.npu.rknn_create_mem2(self.handle(), size, flags),
            lambda: self.npu.rknn_create_mem_from_fd(
                self.handle(),
                self.random.choice([self.descriptor, -1, 99999]),
                None,
                self.random.choice([100, 8192, size]),
                self.random.choice([0, 4096, -1, 2**31 - 1]),
            ),
            lambda: self.npu.rknn_create_mem_from_phys(
                self.handle(), self.random.getrandbits(40), self.memory.ctypes.data, 1000
            ),
            lambda: self.npu.rknn_create_mem_from_mb_blk(self.handle(), self.address(), 0),
        ]
        mem = self.random.choice(makers)()
        if mem:
            self.mems.append(mem)
        return SUCC

    def destroy_mem(self) -> int:
        mem = self.mem()
        code = self.npu.rknn_destroy_mem(self.handle(), mem)
        if code == SUCC:
            self.mems = [m for m in self.mems if ctypes.addressof(m.contents) != address_of(mem)]
            self.stale.append(mem)
        return code

    def mem_sync(self) -> int:
        return self.npu.rknn_mem_sync(self.handle(), self.mem(), self.integer())

    def set_mem(self) -> int:
        calls = (self.npu.rknn_set_weight_mem, self.npu.rknn_set_internal_mem)
        return self.random.choice(calls)(self.handle(), self.mem())

    def set_io_mem(self) -> int:
        return self.npu.rknn_set_io_mem(self.handle(), self.mem(), self.attr())

    # ------------------------------------------------------------------------- matrix products

    def matmul_info(self) -> Any:
        info = abi.MatmulInfo(
            M=self.random.choice([1, 4, 4, self.integer()]),
            K=self.random.choice([32, 64, 64, 33, self.integer()]),
            N=self.random.choice([32, 64, 64, 33, self.integer()]),
            type=self.random.choice([1, 2, 2, 3, 4, 9, 10, self.integer()]),
            B_layout=self.random.choice([0, 1, 2, self.integer()]),
            AC_layout=self.random.choice([0, 1, 2, self.integer()]),
            B_quant_type=self.random.choice([0, 0, 2, 4, self.random.randrange(7)]),
            AC_quant_type=self.random.choice([0, 0, 1, self.integer()]),
            group_size=self.random.choice([32, 0, -1, 7]),
        )
        return self.random.choice([info, info, info, None])

    def matmul_create(self) -> int:
        context, attrs, info = abi.Handle(), (abi.MatmulIoAttr * 3)(), self.matmul_info()
        shapes = shapes_of((1, 64, 64), (4, 64, 64), (1, self.integer(), 64))
        count = self.random.choice([1, 2, 2, 3, 0, -1, 2**31 - 1])
        many = (ctypes.byref(context), info, count, shapes, attrs)
        makers: list[Callable[[], int]] = [
            lambda: self.npu.rknn_matmul_create(ctypes.byref(context), info, attrs),
            lambda: self.npu.rknn_matmul_create_dynamic_shape(*many),
            lambda: self.npu.rknn_matmul_create_dyn_shape(*many),
        ]
        code = self.random.choice(makers)()
        if code == SUCC:
            self.handles.append(context.value)
            self.products[context.value] = attrs
        return code

    def product(self) -> tuple[int, Any]:
        """A handle and attributes, mostly those of a product that was made."""
        if not self.products or self.random.random() < 0.2:
            return self.handle(), abi.MatmulIoAttr(A=abi.MatmulTensorAttr(name=b"A", size=64))
        handle = self.random.choice(list(self.products))
        return handle, self.products[handle][self.random.choice([0, 0, 1])]

    def matmul_set_io_mem(self) -> int:
        handle, attr = self.product()
        one = getattr(attr, self.random.choice("ABC"))
        mem = self.random.choice([self.mem(), self.npu.rknn_create_mem(handle, one.size)])
        if mem:
            self.mems.append(mem)
        return self.npu.rknn_matmul_set_io_mem(handle, mem, self.random.choice([one, one, None]))

    def matmul_set_all(self) -> int:
        handle, attr = self.product()
        for one in (attr.A, attr.B, attr.C):
            mem = self.npu.rknn_create_mem(handle, one.size)
            if mem:
                self.mems.append(mem)
            assert self.npu.rknn_matmul_set_io_mem(handle, mem, one) in KNOWN_CODES
        return self.npu.rknn_matmul_run(handle)

    def matmul_run(self) -> int:
        return self.npu.rknn_matmul_run(self.product()[0])

    def matmul_set_core_mask(self) -> int:
        return self.npu.rknn_matmul_set_core_mask(self.product()[0], self.integer())

    def matmul_set_dynamic_shape(self) -> int:
        shape = abi.MatmulShape(self.random.choice([1, 4, self.integer()]), 64, 64)
        pointer = self.random.choice([ctypes.byref(shape), ctypes.byref(shape), None])
        return self.npu.rknn_matmul_set_dynamic_shape(self.product()[0], pointer)

    def matmul_parameters(self) -> int:
        scales, zeros = (ctypes.c_float * 128)(*[0.5] * 128), (ctypes.c_int32 * 128)()
        scales[0] = self.random.choice([1, 1, 0, -1, float("nan"), float("inf")])
        zeros[0] = self.integer()
        params = abi.QuantParams(
            name=self.random.choice([b"A", b"B", b"B", b"C", b"x" * 255]),
            scale=self.random.choice([scales, scales, None]),
            scale_len=self.random.choice([1, 64, 128, 0, -1]),
            zp=self.random.choice([zeros, None]),
            zp_len=self.random.choice([0, 1, 64, 128, -1]),
        )
        pointer = self.random.choice([ctypes.byref(params), ctypes.byref(params), None])
        handle, _ = self.product()
        if self.random.random() < 0.3:
            return self.npu.rknn_matmul_get_quant_params(handle, pointer, scales)
        return self.npu.rknn_matmul_set_quant_params(handle, pointer)

    def matmul_layout(self) -> int:
        info = abi.MatmulInfo(type=self.integer())
        tail = self.random.choice([(ctypes.addressof(info), 0, 0), (32, 32, 2), (16, 32, 1)])
        if self.random.random() < 0.2:
            tail = (self.random.randrange(65536), self.integer(), self.integer())
        size = self.random.choice([0, 32, 64, -1, 33])
        convert = self.npu.rknn_B_normal_layout_to_native_layout
        return convert(self.address(), self.address(), size, self.random.choice([32, 64, 0]), *tail)

    def matmul_destroy(self) -> int:
        handle, _ = self.product()
        code = self.npu.rknn_matmul_destroy(handle)
        if code == SUCC:
            self.handles.remove(handle)
            del self.products[handle]
        return code

    def callback(self, context: Any, inputs: Any, n: int, outputs: Any, m: int) -> int:
        """What an operator might do: look around, spoil what it got, call back, fail."""
        self.get_attribute(context)
        for tensor in (*inputs[:n], *outputs[:m]):
            ctypes.memset(tensor.mem.virt_addr + tensor.mem.offset, 7, tensor.mem.size)
            if self.random.random() < 0.2:
                ctypes.memset(ctypes.byref(tensor), 0xFF, ctypes.sizeof(tensor))
        context.contents.priv_data = self.random.getrandbits(64)
        context.contents.internal_ctx = self.random.getrandbits(64)
        if self.random.random() < 0.2 and threading.get_ident() == self.thread:
            calls = [self.npu.rknn_run, self.npu.rknn_wait]
            assert self.random.choice(calls)(self.running, None) in KNOWN_CODES
            if self.random.random() < 0.2:
                code = self.npu.rknn_destroy(self.running)
                assert code in KNOWN_CODES - {SUCC} or self.running not in self.handles
        return self.random.choice([0, 0, 0, 0, -1, -14, self.integer()])

    def get_attribute(self, context: Any = None) -> int:
        made_up = abi.CustomOpContext(internal_ctx=self.random.getrandbits(64))
        found = abi.CustomOpAttr()
        self.npu.rknn_custom_op_get_op_attr(
            context or self.random.choice([None, ctypes.pointer(made_up)]),
            self.random.choice([None, b"", b"axis", b"mode", b"name", b"\xff"]),
            self.random.choice([None, ctypes.byref(found), ctypes.byref(found)]),
        )
        if found.n_elems:
            assert ctypes.string_at(found.data, found.n_elems)
        return SUCC

    def register_custom_ops(self) -> int:
        operators = (abi.CustomOp * 2)()
        missing = abi.CustomOpCallback()
        for operator in operators:
            operator.op_type = self.random.choice(
                [b"cstScale", b"Abs", b"Relu", b"Conv", b"", b"X"]
            )
            operator.target = self.random.choice([1, 1, 1, 2, self.integer()])
            for name in ("init", "prepare", "compute", "compute_native"):
                setattr(operator, name, self.random.choice([*self.callbacks, missing]))
            operator.destroy = self.destroy_callback
            operator.cl_kernel_name = self.random.choice([b"", b"k"])
            operator.cl_source_size = self.random.choice([0, 5, 2**63])
            operator.cl_kernel_source = self.random.choice([None, b"/no/such/file", b"kernel"])
        count = self.random.choice([0, 1, 1, 2, 2**31, 2**32 - 1])
        pointer = self.random.choice([operators, operators, None])
        self.running = self.handle()
        return self.npu.rknn_register_custom_ops(self.running, pointer, count)

    def go(self, steps: int) -> None:
        rare = [
            self.init, self.destroy, self.dup_context, self.register_custom_ops,
            self.matmul_create, self.matmul_destroy,
        ]  # fmt: skip
        common = [
            self.query, self.inputs_set, self.run, self.wait, self.outputs_get,
            self.outputs_release, self.set_core_mask, self.set_batch_core_num,
            self.set_input_shapes, self.set_input_shape, self.create, self.destroy_mem,
            self.mem_sync, self.set_mem, self.set_io_mem, self.matmul_set_io_mem,
            self.matmul_run, self.matmul_set_all, self.matmul_set_core_mask,
            self.matmul_set_dynamic_shape, self.matmul_parameters, self.matmul_layout,
            self.get_attribute,
        ]  # fmt: skip
        for _ in range(3):
            self.init()
            self.matmul_create()
        for _ in range(steps):
            code = self.random.choice(rare + 4 * common)()
            assert code in KNOWN_CODES, code
        for handle in self.handles:
            assert self.npu.rknn_destroy(handle) == SUCC
        for mem in self.mems:
            assert self.npu.rknn_destroy_mem(0, mem) in KNOWN_CODES
        os.close(self.descriptor)


def address_of(pointer: Any) -> int:
    return ctypes.addressof(pointer.contents) if pointer else 0
