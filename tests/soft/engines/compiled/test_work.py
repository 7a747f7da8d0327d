"""The bound on a run's work: what is too much is refused when a model is loaded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from onnx import helper

import anynpu
from anynpu.soft.engines import ModelSource, load
from anynpu.soft.engines.node_work import node_work
from anynpu.soft.engines.rknpu import prepare
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.tasks import Convolution, Features
from anynpu.soft.engines.rknpu.weights import WeightLayout, Weights
from anynpu.soft.engines.rknpu.work import check_room, work_of
from anynpu.soft.engines.work import DEFAULT, Budget, most_work
from anynpu.soft.formats.rknn.reader import read_model
from tests.soft.engines.rknpu.descriptions import convolution_task

from .test_networks import FOLDER, archive_of

FILE = archive_of(FOLDER / "rk3588_conv_odd_size_int8.npz")[0]


def test_a_sound_file_is_far_below_the_bound() -> None:
    model, budget = read_model(FILE), Budget()
    prepare(model, model.graphs[0], budget=budget)
    assert 5 * 5 * 32 * 8 < budget.taken < DEFAULT / 1000


def test_the_environment_sets_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_MAX_WORK", "1e4")
    with pytest.raises(anynpu.ModelError, match=r"1e\+04; \$ANYNPU_SOFT_MAX_WORK"):
        load(ModelSource.of(FILE))
    monkeypatch.setenv("ANYNPU_SOFT_MAX_WORK", "inf")
    load(ModelSource.of(FILE))


@pytest.mark.parametrize("word", ["much", "-1", "0", "nan"])
def test_a_bound_is_a_positive_number(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_MAX_WORK", word)
    with pytest.raises(anynpu.ModelError, match="ANYNPU_SOFT_MAX_WORK is"):
        most_work()


def test_a_wrong_number_of_threads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "soft")
    monkeypatch.setenv("ANYNPU_SOFT_THREADS", "two")
    with pytest.raises(anynpu.InvalidModelError, match="ANYNPU_SOFT_THREADS is 'two'"):
        anynpu.InferenceSession(FILE)


def test_a_batch_counts_as_often_as_it_runs() -> None:
    budget = Budget(runs=1000)
    budget.take(DEFAULT / 2000, "a task")
    with pytest.raises(anynpu.ModelError, match="a task too many takes the work"):
        budget.take(DEFAULT / 1999, "a task too many")


def test_tasks_without_end_are_refused_before_they_are_decoded() -> None:
    model = read_model(FILE)
    graph = model.graphs[0]
    tasks = graph.tasks * 200_000
    many = replace(graph, tasks=tasks, task_bounds=(len(tasks),) * 3)
    with pytest.raises(anynpu.ModelError, match=f"a list of {len(tasks)} tasks"):
        prepare(model, many)
    one = replace(graph.tasks[0], commands=1 << 30)
    with pytest.raises(anynpu.ModelError, match="a list of 1 tasks with 1073741824 commands"):
        prepare(model, replace(graph, tasks=(one,), task_bounds=(1, 1, 1)))


def a_convolution(height: int, width: int, kernel: int) -> Convolution:
    """512 channels to 512, of a place that is read again and again."""
    source = Features(Address(INTERNAL, 0), Element.INT8, 512, height, width, 0, 0, 16)
    layout = WeightLayout(Element.INT8, 512, 512, kernel, kernel, 32, 32, False)
    weights = Weights(Address(INTERNAL, 0), layout, None)
    return Convolution(
        source, 512, None, weights, (0, 0), (0, 0), 0.0, (1, 1), (1, 1), None, 512, height, width
    )


def test_a_task_of_2_to_40_products_is_too_much() -> None:
    task = convolution_task(a_convolution(1024, 512, 3))
    products = 512 * 512 * 9 * 1024 * 512
    assert products > 1 << 40
    assert products < work_of(task, is_planned=True) < 1.1 * products
    assert work_of(task, is_planned=False) > 8 * products
    with pytest.raises(anynpu.ModelError, match="ANYNPU_SOFT_MAX_WORK"):
        Budget().take(work_of(task, is_planned=True), "task 0")


def test_arrays_that_are_too_large_for_numpy_are_refused() -> None:
    task = convolution_task(a_convolution(1024, 256, 1))
    check_room(task, is_planned=True)
    with pytest.raises(anynpu.ModelError, match="an array of 134217728 elements"):
        check_room(task, is_planned=False)


@pytest.mark.parametrize(
    ("op_type", "attributes", "inputs", "output", "least"),
    [
        ("Relu", {}, [(1000,)], (1000,), 1000),
        ("AveragePool", {"kernel_shape": [1 << 40, 3]}, [(1, 1, 9, 9)], (1, 1, 1, 7), 9 * 3 * 7),
        ("Conv", {}, [(1, 8, 9, 9), (4, 8, 3, 3)], (1, 4, 7, 7), 4 * 49 * 8 * 9),
        ("MatMul", {}, [(100, 200), (200, 300)], (100, 300), 100 * 200 * 300),
        ("Einsum", {}, [(100, 200), (200, 300)], (100, 300), 100 * 300 * 200),
        ("RoiAlign", {"sampling_ratio": 50}, [(1, 1, 9, 9)], (1, 1, 2, 2), 4 * 2500),
    ],
)
def test_the_work_of_cpu_nodes(
    op_type: str,
    attributes: dict[str, object],
    inputs: list[tuple[int, ...]],
    output: tuple[int, ...],
    least: int,
) -> None:
    node = helper.make_node(op_type, ["a", "b"][: len(inputs)], ["y"])
    assert node_work(node, attributes, inputs, [output]) >= least


def test_an_operator_that_samples_as_it_likes_is_refused() -> None:
    node = helper.make_node("RoiAlign", ["x", "r", "i"], ["y"])
    with pytest.raises(anynpu.ModelError, match="follows from its regions"):
        node_work(node, {}, [(1, 1, 9, 9), (1, 4), (1,)], [(1, 1, 2, 2)])
