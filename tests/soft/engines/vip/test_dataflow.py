"""Who wrote what an operation reads."""

from __future__ import annotations

from pathlib import Path

from anynpu.soft.engines.vip.dataflow import dataflow
from anynpu.soft.engines.vip.prepare import prepare
from anynpu.soft.formats import nbg

_COMPILED = Path(__file__).parents[3] / "data" / "compiled" / "nbg"


def test_a_sum_reads_both_of_its_operands() -> None:
    """A convolution, one of its result, the sum of both, and one that makes the output of it."""
    prepared = prepare(nbg.read((_COMPILED / "residual.t527.nb").read_bytes()))
    flow = dataflow(prepared.layout, prepared.tasks)
    assert flow.reads == ((-1,), (0,), (0, 1), (2,))
    assert flow.outputs == ((3,),)
