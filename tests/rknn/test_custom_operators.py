"""Custom operators in Python and from plugins, in models, sessions and contexts."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import anynpu
from anynpu.rknn import Context, CustomOp, UseBuiltin, abi, custom_op, custom_ops, header
from anynpu.rknn.library import RknnLibrary, load

from .. import models

X = np.random.default_rng(0).integers(-9, 9, (1, 3, 4, 5)).astype(np.float32)

PLUGIN = r"""
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rknn_api.h"

static int init(rknn_custom_op_context *context, rknn_custom_op_tensor *inputs, uint32_t n,
                rknn_custom_op_tensor *outputs, uint32_t m) {
  rknn_custom_op_attr attribute;
  rknn_custom_op_get_op_attr(context, "factor", &attribute);
  float *factor = malloc(sizeof *factor);
  *factor = attribute.n_elems == 1 && attribute.dtype == RKNN_TENSOR_FLOAT32
                ? *(float *)attribute.data : 2;
  context->priv_data = factor;
  (void)inputs, (void)outputs;
  return n == 1 && m == 1 ? 0 : -1;
}

static int compute(rknn_custom_op_context *context, rknn_custom_op_tensor *inputs, uint32_t n,
                   rknn_custom_op_tensor *outputs, uint32_t m) {
  const float *x = (const float *)((char *)inputs->mem.virt_addr + inputs->mem.offset);
  float *y = (float *)((char *)outputs->mem.virt_addr + outputs->mem.offset);
  for (uint32_t i = 0; i < inputs->attr.n_elems; i++) y[i] = x[i] * *(float *)context->priv_data;
  (void)n, (void)m;
  return 0;
}

static int destroy(rknn_custom_op_context *context) {
  free(context->priv_data);
  return 0;
}

static rknn_custom_op operator;

RKNN_CUSTOM_OP_EXPORT rknn_custom_op *get_rknn_custom_op(void) {
  memset(&operator, 0, sizeof operator);
  strcpy(operator.op_type, OP_TYPE);
  operator.version = 3;
  operator.target = TARGET;
  operator.init = init;
  operator.compute = compute;
  operator.destroy = destroy;
  return &operator;
}
"""


@pytest.fixture(scope="module")
def plugin(
    tmp_path_factory: pytest.TempPathFactory, c_compiler: str, soft_folder: Path
) -> Callable[..., Path]:
    """A function that compiles a plugin; linked to the runtime's library or not."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "rknn_api.h").write_text(header.text())

    def make(
        name: str = "scale", *, linked: bool = False, text: str = PLUGIN, target: int = 1
    ) -> Path:
        source = folder / f"{name}.c"
        output = folder / f"librkcst_{name}{'_linked' if linked else ''}.so"
        source.write_text(text)
        defines = [f'-DOP_TYPE="cst{name.capitalize()}"', f"-DTARGET={target}"]
        link = ["-L", str(soft_folder), "-lrknnrt"] if linked else []
        files = [str(output), str(source)]
        command = [c_compiler, "-shared", "-fPIC", "-Wall", "-Werror", *defines, "-o", *files]
        subprocess.run([*command, *link], check=True)
        return output

    return make


def scaled(factor: float, values: np.ndarray = X) -> np.ndarray:
    """What `models.custom` gives, with an operator that multiplies."""
    result: np.ndarray = np.maximum(np.maximum(values, 0) * np.float32(factor), 0)
    return result


def run(operators: list[CustomOp], model: bytes) -> np.ndarray:
    with anynpu.Model(model, custom_ops=operators) as opened:
        opened.run(X)
        return np.array(opened.output_f32(0))


# ------------------------------------------------------------------------------------- Python


@custom_op("cstScale")
def multiply(node: Any, inputs: Any, outputs: Any) -> None:
    """Multiplies."""
    np.multiply(inputs[0], node.attribute("factor", 2), out=outputs[0])


class Multiplication:
    """Multiplies, and remembers what happened."""

    events: list[str]

    def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
        self.factor = node.attribute("factor", 2)
        self.events = log
        log.append(f"init {node.name} {inputs[0].shape} {outputs[0].dtype}")

    def prepare(self, inputs: Any, outputs: Any) -> None:
        self.events.append("prepare")

    def compute(self, inputs: Any, outputs: Any) -> None:
        self.events.append("compute")
        np.multiply(inputs[0], self.factor, out=outputs[0])

    def destroy(self) -> None:
        self.events.append("destroy")


log: list[str] = []
Multiply = custom_op("cstScale", version=7)(Multiplication)


@pytest.mark.parametrize("operator", [multiply, Multiply])
def test_a_function_and_a_class(operator: CustomOp) -> None:
    np.testing.assert_array_equal(run([operator], models.custom(factor=3.0)), scaled(3))
    np.testing.assert_array_equal(run([operator], models.custom()), scaled(2))


def test_a_class_lives_as_long_as_its_node() -> None:
    log.clear()
    with anynpu.Model(models.custom(), custom_ops=[Multiply]) as model:
        model.run(X)
        model.run(X)
    assert log == [
        "init the_node (1, 3, 4, 5) float32",
        *["prepare", "compute"] * 2,
        "destroy",
    ]


def test_an_operator_says_what_it_is() -> None:
    assert (Multiply.op_type, Multiply.version, Multiply.target) == ("cstScale", 7, 1)
    assert repr(multiply) == "<CustomOp cstScale for the CPU>"
    assert multiply.__doc__ == "Multiplies."
    output = np.empty(2, np.float32)
    multiply(type("Node", (), {"attribute": lambda *_: 5}), [np.ones(2)], [output])
    assert output.tolist() == [5, 5]


def test_a_function_may_return_its_outputs() -> None:
    @custom_op("cstScale")
    def doubled(node: Any, inputs: Any, outputs: Any) -> Any:
        return inputs[0].astype(np.float64) * 2

    np.testing.assert_array_equal(run([doubled], models.custom()), scaled(2))


@pytest.mark.parametrize("result", [np.zeros(3), (np.zeros(X.shape), np.zeros(X.shape))])
def test_results_that_do_not_fit(result: Any) -> None:
    @custom_op("cstScale")
    def wrong(node: Any, inputs: Any, outputs: Any) -> Any:
        return result

    with pytest.raises(anynpu.CallError) as caught:
        run([wrong], models.custom())
    assert isinstance(caught.value.__cause__, anynpu.TensorError)


def test_arrays_are_the_runtime_s_own_memory() -> None:
    addresses = set()

    @custom_op("cstScale")
    def look(node: Any, inputs: Any, outputs: Any) -> None:
        addresses.add((inputs[0].ctypes.data, outputs[0].ctypes.data))
        assert not inputs[0].flags.writeable
        assert inputs[0].flags.c_contiguous
        outputs[0][...] = inputs[0]

    with anynpu.Model(models.custom(), custom_ops=[look]) as model:
        for _ in range(3):
            model.run(X)
        np.testing.assert_array_equal(model.output_f32(0), scaled(1))
    assert len(addresses) == 1


def test_attributes() -> None:
    found = {}

    class Reader:
        def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
            self.node = node
            for name in ("axis", "axes", "mode", "alpha", "missing", "name"):
                found[name] = node.attribute(name)
            found["default"] = node.attribute("missing", 5)

        def compute(self, inputs: Any, outputs: Any) -> None:
            found["later"] = self.node.attribute("late")
            outputs[0][...] = inputs[0]

        def destroy(self) -> None:
            found["kept"] = self.node.attribute("axis")
            with pytest.raises(anynpu.StateError, match="'other' can be read inside"):
                self.node.attribute("other")
            found["refused"] = True

    run(
        [custom_op("cstScale")(Reader)],
        models.custom(axis=-1, axes=[1, 2], mode="nearest", alpha=0.5, late=3),
    )
    assert found.pop("axes").tolist() == [1, 2]
    assert found == {
        "axis": -1, "mode": "nearest", "alpha": 0.5, "missing": None, "name": "the_node",
        "default": 5, "later": 3, "kept": -1, "refused": True,
    }  # fmt: skip


@pytest.mark.parametrize("moment", ["__init__", "prepare", "compute"])
def test_an_exception(moment: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback, and the cause of the error that the call raises."""

    class Broken:
        def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
            pass

        def compute(self, inputs: Any, outputs: Any) -> None:
            pass

    def fail(self: Any, *_: Any) -> None:
        raise ZeroDivisionError("three apples among nobody")

    setattr(Broken, moment, fail)
    with pytest.raises(anynpu.CallError) as caught:
        run([custom_op("cstScale")(Broken)], models.custom())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    call = "rknn_register_custom_ops" if moment == "__init__" else "rknn_run"
    assert caught.value.call == call
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "three apples among nobody" in caplog.text
    assert "Traceback" in caplog.text


def test_after_an_exception_the_model_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    fails = [True, False]

    @custom_op("cstScale")
    def sometimes(node: Any, inputs: Any, outputs: Any) -> None:
        if fails.pop(0):
            raise ValueError("not now")
        outputs[0][...] = inputs[0]

    with anynpu.Model(models.custom(), custom_ops=[sometimes]) as model:
        with pytest.raises(anynpu.CallError):
            model.run(X)
        model.run(X)
        np.testing.assert_array_equal(model.output_f32(0), scaled(1))


def test_leaving_a_node_to_the_runtime(caplog: pytest.LogCaptureFixture) -> None:
    class Skips:
        def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
            raise UseBuiltin

        def compute(self, inputs: Any, outputs: Any) -> None:
            raise AssertionError("not reached")

    assert (run([custom_op("Abs")(Skips)], models.custom("Abs")) == np.maximum(X, 0)).all()

    @custom_op("Abs")
    def too_late(node: Any, inputs: Any, outputs: Any) -> None:
        raise UseBuiltin

    with pytest.raises(anynpu.CallError):
        run([too_late], models.custom("Abs"))
    assert "UseBuiltin outside of __init__" in caplog.text


@pytest.mark.parametrize("op_type", ["", "x" * 256])
def test_names_that_c_cannot_hold(op_type: str) -> None:
    with pytest.raises(anynpu.OptionError, match="1 to 255 bytes"):
        custom_op(op_type)


def test_a_class_without_compute() -> None:
    with pytest.raises(anynpu.OptionError, match="has no compute"):

        @custom_op("cstScale")
        class Nothing:
            pass


def test_nothing_keeps_an_operator_once_its_contexts_are_gone() -> None:
    class State:
        def compute(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][...] = inputs[0]

    state = State()
    reference = weakref.ref(state)
    context = Context(models.custom())
    # Nobody holds the operator but the context.
    context.register_custom_ops([custom_op("cstScale")(state.compute)])
    del state
    gc.collect()
    context.set_inputs([X], [abi.TensorFormat.NCHW])
    context.run()
    assert reference() is not None
    context.close()
    del context
    gc.collect()
    assert reference() is None


def test_the_end_of_the_program_ends_operators_that_are_left(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(models.custom())
    program = (
        "import anynpu, numpy as np\n"
        "@anynpu.rknn.custom_op('cstScale')\n"
        "class Op:\n"
        "    def __init__(self, *_): pass\n"
        "    def compute(self, inputs, outputs): outputs[0][...] = inputs[0]\n"
        "    def destroy(self): print('destroyed')\n"
        f"model = anynpu.Model({str(tmp_path / 'model.onnx')!r}, custom_ops=[Op])\n"
        "model.run(np.ones((1, 3, 4, 5), np.float32))\n"
        "print('ran')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (result.stdout.split(), result.stderr) == (["ran", "destroyed"], "")


# ------------------------------------------------------------------------------------ contexts


def test_calls_add_up() -> None:
    model = models.save(
        [
            helper.make_node("cstA", ["x"], ["a"], domain="tests"),
            helper.make_node("cstB", ["a"], ["y"], domain="tests"),
        ],
        [("x", TensorProto.FLOAT, (2, 3))],
        [("y", TensorProto.FLOAT, (2, 3))],
    )
    a = custom_op("cstA")(lambda node, inputs, outputs: inputs[0] + 1)
    b = custom_op("cstB")(lambda node, inputs, outputs: inputs[0] * 10)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    output = np.empty_like(values)
    with Context(model) as context:
        context.register_custom_ops([])
        context.register_custom_ops([a])
        context.register_custom_ops([b])
        context.set_inputs([values], [abi.TensorFormat.UNDEFINED])
        context.run()
        context.get_outputs([output], as_float=True)
        with pytest.raises(anynpu.InvalidArgumentError, match="operators: cstA"):
            context.register_custom_ops([a])
    np.testing.assert_array_equal(output, (values + 1) * 10)


def test_a_duplicate_of_a_model_has_them_too() -> None:
    with anynpu.Model(models.custom(), custom_ops=[multiply]) as model, model.dup() as other:
        other.run(X)
        np.testing.assert_array_equal(other.output_f32(0), scaled(2))


# -------------------------------------------------------------------------------------- boards


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, c_compiler: str) -> RknnLibrary:
    """A runtime that is not the soft NPU."""
    folder = tmp_path_factory.mktemp("board")
    (folder / "rknn_api.h").write_text(header.text())
    output = folder / "librknnrt.so"
    source = Path(__file__).with_name("programs") / "board.c"
    command = [c_compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-I", folder, "-o", output]
    subprocess.run([*map(str, command), str(source), "-lpthread"], check=True)
    return load(output)


def run_on(board: RknnLibrary, context: Context) -> np.ndarray:
    values = np.array([[1, 2], [3, 4]], np.float32)
    output = np.empty_like(values)
    context.set_inputs([values], [abi.TensorFormat.UNDEFINED])
    context.run()
    context.get_outputs([output], as_float=True)
    return output


def test_python_on_a_board(board: RknnLibrary, caplog: pytest.LogCaptureFixture) -> None:
    """Called from a thread that isn't Python's, on tensors inside of their memory."""
    log.clear()
    fails = [False, True, False]

    class Op(Multiplication):
        def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
            super().__init__(node, inputs, outputs)
            self.axis = node.attribute("axis")

        def compute(self, inputs: Any, outputs: Any) -> None:
            if fails.pop(0):
                raise ValueError("not this one")
            outputs[0][...] = inputs[0] * self.axis

    assert not board.is_soft
    with Context(b"model", library=board) as context:
        context.register_custom_ops([custom_op("cstScale")(Op)])
        assert run_on(board, context).tolist() == [[7, 14], [21, 28]]
        with pytest.raises(anynpu.CallError) as caught:
            run_on(board, context)
        assert str(caught.value.__cause__) == "not this one"
        assert run_on(board, context).tolist() == [[7, 14], [21, 28]]
        with pytest.raises(anynpu.StateError, match="in one call only"):
            context.register_custom_ops([multiply])
    assert log == ["init  (2, 2) float32", "prepare", "prepare", "prepare", "destroy"]


# ------------------------------------------------------------------------------------ sessions


def test_a_session_with_many_workers() -> None:
    options = {"custom_ops": Multiply, "threads_per_core": 2, "disable_dup_context": True}
    with anynpu.InferenceSession(models.custom(), provider_options=options) as session:
        results = [session.submit(None, {"x": X + i}) for i in range(12)]
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result.result()[0], scaled(2, X + i))
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], scaled(2))


def test_sessions_of_several_kinds_of_operators(plugin: Callable[..., Path]) -> None:
    options = {"custom_ops": [multiply], "custom_op_paths": plugin(), "disable_dup_context": True}
    with pytest.raises(anynpu.CallError, match="operators: cstScale, cstScale"):
        anynpu.InferenceSession(models.custom(), provider_options=options)
    with pytest.raises(anynpu.OptionError, match="a CustomOp or a sequence"):
        anynpu.InferenceSession(models.custom(), provider_options={"custom_ops": ["a.so"]})


def test_a_session_in_which_an_operator_fails(caplog: pytest.LogCaptureFixture) -> None:
    @custom_op("cstScale")
    def fails(node: Any, inputs: Any, outputs: Any) -> None:
        raise ValueError("never")

    options = {"custom_ops": [fails], "disable_dup_context": True}
    with (
        anynpu.InferenceSession(models.custom(), provider_options=options) as session,
        pytest.raises(anynpu.CallError),
    ):
        session.run(None, {"x": X})
    assert "ValueError: never" in caplog.text


def test_duplicates_are_given_up_with_a_warning() -> None:
    with (
        pytest.warns(UserWarning, match="aren't duplicates"),
        anynpu.InferenceSession(
            models.custom(), provider_options={"custom_ops": [multiply]}
        ) as session,
    ):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], scaled(2))


# ------------------------------------------------------------------------------------- plugins


@pytest.mark.parametrize("linked", [False, True])
def test_a_plugin(plugin: Callable[..., Path], linked: bool) -> None:
    operator = CustomOp.load(plugin(linked=linked))
    assert (operator.op_type, operator.version, operator.target) == ("cstScale", 3, 1)
    np.testing.assert_array_equal(run([operator], models.custom(factor=3.0)), scaled(3))
    np.testing.assert_array_equal(run([operator], models.custom()), scaled(2))
    with pytest.raises(TypeError, match="not written in Python"):
        operator(1)


def test_a_plugin_on_the_shared_library(plugin: Callable[..., Path], soft_folder: Path) -> None:
    library = load(soft_folder / "librknnrt.so")
    operator = CustomOp.load(plugin(), library=library)
    with anynpu.Model(models.custom(factor=5.0), library=library, custom_ops=[operator]) as model:
        model.run(X)
        np.testing.assert_array_equal(model.output_f32(0), scaled(5))


def test_a_plugin_by_its_path_in_a_session(plugin: Callable[..., Path]) -> None:
    options = {"custom_op_paths": [plugin()], "disable_dup_context": True}
    model = models.custom(factor=3.0)
    with anynpu.InferenceSession(model, provider_options=options) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], scaled(3))


def test_plugins_in_the_default_folder(
    plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "librkcst_a.so").symlink_to(plugin())
    (tmp_path / "librkcst_broken.so").write_text("no library")
    (tmp_path / "libother.so").write_text("not looked at")
    monkeypatch.setattr(custom_ops, "_FOLDERS", (tmp_path / "missing", tmp_path))
    with pytest.warns(UserWarning, match="librkcst_broken"):
        assert [operator.op_type for operator in CustomOp.load_default()] == ["cstScale"]
    (tmp_path / "librkcst_broken.so").unlink()
    options = {"custom_op_default_path": True, "disable_dup_context": True}
    with anynpu.InferenceSession(models.custom(), provider_options=options) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], scaled(2))


def test_two_plugins_with_the_same_operator(plugin: Callable[..., Path]) -> None:
    options = {"custom_op_paths": [plugin(), plugin(linked=True)], "disable_dup_context": True}
    with pytest.raises(anynpu.LibraryError, match="two operators 'cstScale'"):
        anynpu.InferenceSession(models.custom(), provider_options=options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int unrelated;", "get_rknn_custom_op"),
        ("void *get_rknn_custom_op(void) { return 0; }", "returned NULL"),
        ('#include "nothing.h"', None),
    ],
)
def test_what_is_no_plugin(
    plugin: Callable[..., Path], text: str, message: str | None, tmp_path: Path
) -> None:
    if message is None:
        with pytest.raises(anynpu.LibraryError, match="isn't a plugin"):
            CustomOp.load(tmp_path / "missing.so")
        return
    with pytest.raises(anynpu.LibraryError, match=message):
        CustomOp.load(plugin(f"bad{len(text)}", text=text))


def test_a_plugin_for_an_unknown_target(plugin: Callable[..., Path]) -> None:
    with pytest.raises(anynpu.LibraryError, match="target 9 is unknown"):
        CustomOp.load(plugin("nine", target=9))


def test_under_asyncio() -> None:
    options = {"custom_ops": [multiply], "disable_dup_context": True}

    async def main() -> list[np.ndarray]:
        with anynpu.InferenceSession(models.custom(), provider_options=options) as session:
            found = await asyncio.gather(*(session.run_awaitable(None, {"x": X}) for _ in range(4)))
            return [outputs[0] for outputs in found]

    for output in asyncio.run(main()):
        np.testing.assert_array_equal(output, scaled(2))
