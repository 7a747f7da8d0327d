"""VIPLite leaks nothing: not over many runs, nor over many networks."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import anynpu
from anynpu.viplite.awnn import AwnnContext
from anynpu.viplite.group import Group
from anynpu.viplite.library import VipliteLibrary
from anynpu.viplite.network import Network
from anynpu.viplite.runtime import runtime_of

from .. import models
from ..soft.viplite.client import network_file, relu
from ..test_endurance import MEGABYTE, SHAPE, VALUES, _without_collector, descriptors, growth

__all__ = ["_without_collector"]

SHORT, LONG = 1_000, 10_000
RUNS = [SHORT, pytest.param(LONG, marks=pytest.mark.nightly)]
NETWORKS = [100, pytest.param(1_000, marks=pytest.mark.nightly)]
PICTURE = np.ones((32, 32, 3), np.float32)


@pytest.mark.usefixtures("_without_collector")
@pytest.mark.parametrize("times", RUNS)
def test_runs_of_a_model(times: int) -> None:
    with anynpu.Model(network_file(models.add_one(SHAPE))) as model:

        def work() -> None:
            model.run(PICTURE)
            model.output_raw(0)
            model.output_f32(0)

        assert growth(work, times) < 3 * MEGABYTE


@pytest.mark.usefixtures("_without_collector")
@pytest.mark.parametrize("times", RUNS)
def test_runs_of_a_session(times: int) -> None:
    options = {"output_dtype": "model"}
    with anynpu.InferenceSession(network_file(models.add_one(SHAPE))) as session:
        assert growth(lambda: session.run(None, {"x": VALUES}), times) < 3 * MEGABYTE
        future = session.submit(None, {"x": VALUES})
        assert growth(lambda: session.submit(None, {"x": VALUES}).result(), 300) < 3 * MEGABYTE
        assert future.result()[0].shape == SHAPE
    with anynpu.InferenceSession(relu(), provider_options=options) as session:
        values = np.full((1, 3, 4, 5), 130, np.uint8)
        assert growth(lambda: session.run(None, {"x": values}), 300) < 3 * MEGABYTE


@pytest.mark.parametrize("times", NETWORKS)
def test_networks_that_come_and_go(vip: VipliteLibrary, times: int) -> None:
    def work() -> None:
        with Network(relu(), library=vip) as network:
            network.prepare()
            duplicate = network.dup()
            duplicate.prepare()
            for each in (network, duplicate):
                each.new_input(0).array()[...] = 130
                each.new_output(0, cached=True)
                each.run()
            with Group(2, library=vip) as group:
                group.add(network)
                group.add(duplicate)
                group.run()
            duplicate.close()

    work()
    gc.collect()
    before, users = descriptors(), runtime_of(vip).users
    assert growth(work, times) < 6 * MEGABYTE
    assert descriptors() == before
    assert runtime_of(vip).users == users


def test_awnn_contexts_that_come_and_go(vip: VipliteLibrary) -> None:
    values = np.full((1, 3, 4, 5), 130, np.uint8)

    def work() -> None:
        with AwnnContext(relu(), library=vip) as context:
            context.set_input_buffers([values])
            context.run()

    work()
    before = descriptors()
    assert growth(work, 100) < 6 * MEGABYTE
    assert descriptors() == before


def test_failed_calls_leave_nothing_behind(vip: VipliteLibrary) -> None:
    broken = relu()[:900]

    def work() -> None:
        with pytest.raises(anynpu.InvalidModelError):
            Network(broken, library=vip)
        with Network(relu(), library=vip) as network, pytest.raises(anynpu.CallError):
            network.run()

    work()
    gc.collect()
    before = descriptors()
    assert growth(work, 150) < 3 * MEGABYTE
    assert descriptors() == before
