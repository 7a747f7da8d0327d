"""Which operators the vendor's runtimes compute on a board's CPU.

The compiler leaves a node to the CPU whether or not a runtime has its operator: a board then
refuses the model, when it is loaded (`librknnmrt`) or run (`librknnrt`). What is known comes from

- the vendor's operator lists (RKNN Compiler Support Operator List, 2.1.0 to 2.3.2, "CPU OPs"),
  which name the same operators in each version, and which of them `librknnmrt` has (from 2.2.0);
- `librknnrt` 1.5.2 itself, which was given files of one operator each, for RK3588 and RK3566;
- what users reported, with the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import OptionError
from ....soc import find
from ...formats.rknn.model import EDGES, CompiledModel, Device, Generation, Graph, Node
from ..program import Refusal
from .custom_nodes import is_foreign
from .layers import computing_nodes

_LISTED_VERSION = "2.3.2"
_OLD_LIBRARY = "librknnrt 1.5.2"
_LIST = f"the vendor's operator list of {_LISTED_VERSION}"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTED = _names(
    """
    Add And ArgMax ArgMin AveragePool BatchNormalization Cast Clip Concat Conv Convolution
    ConvTranspose ConvTransposePad Cos DataConvert Deconvolution DepthToSpace Div Equal Erf Exp
    Expand Flatten Floor Gather GatherElements Gelu Glu Greater GreaterOrEqual GRU HardSwish
    InstanceNormalization LayerNorm LayerNormalization Less LessOrEqual Log LogSoftmax
    LpNormalization LRN MatMul Max MaxPool MaxRoiPool MaxUnpool MeanVarianceNormalization Min Mish
    Mod Mul Norm Not OneHot Pad PassThrough Pow Proposal ReduceL2 ReduceMax ReduceMean ReduceMin
    ReduceSum Reorg Reshape ReshapeTranspose Resize ReverseSequence RMSNorm RoiAlign Round
    ScatterND Sigmoid Sin Slice Softmax Softmax13 SoftmaxMask SpaceToDepth Split Sqrt Squeeze Sub
    Swish SwooshL SwooshR Tanh Tile TopK Transpose TransposeReshape Upsample Where Window
    """
)
"""`librknnrt`'s operators by the list of 2.3.2, without the ``ex`` of the compiler's own."""

_LISTED_FOR_MINI = _names(
    """
    Concat DataConvert Div Exp Gather LayerNorm ReduceL2 ReduceMax Reshape ScatterND Softmax
    Softmax13
    """
)
"""`librknnmrt`'s, of RV1103 and RV1106."""

_REFUSED_BY_OLD = _names(
    """
    Acos Acosh And Asin Asinh Atan Atanh Ceil Celu Cosh Erf Floor GatherElements GatherND GridSample
    Hardmax IsInf IsNaN Log LpPool Mean MeanVarianceNormalization Min Mish Mod OneHot Or ReduceL1
    ReduceLogSum ReduceLogSumExp ReduceProd ReduceSumSquare RNN Round ScatterElements Selu Shrink
    Sign Sinh Softsign Tan TopK Trilu Xor
    """
)
"""What 1.5.2 ends the process for while it loads the file."""

_COMPUTED_OTHERWISE_BY_OLD = {
    "LogSoftmax": "takes all axes from `axis` on together",
    "Max": "computes operands of one shape only, and leaves the output as it was otherwise",
    "Pow": "ends the process where the power isn't a constant",
    "RoiAlign": "samples other places",
    "Not": "says that it doesn't know int8 and leaves the output as it was",
    "Greater": "ends the process",
    "GreaterOrEqual": "ends the process",
    "Less": "ends the process",
    "LessOrEqual": "ends the process",
}
"""What 1.5.2 does with these while it runs."""


@dataclass(frozen=True)
class Report:
    """An operator that a user's board refused; the runtime's version where the user gave it."""

    op_type: str
    chip: str
    version: str
    source: str


_REPORTS = (
    Report("ArgMax", "rv1106", "2.3.2", "airockchip/rknn-toolkit2#557"),
    Report("AveragePool", "rv1106", "", "airockchip/rknn-toolkit2#217"),
    Report("Min", "rv1106", "", "airockchip/rknn-toolkit2#482"),
    Report("Norm", "rv1106", "", "airockchip/rknn-toolkit2#359"),
    Report("Pow", "rv1106", "", "airockchip/rknn_model_zoo#312"),
    Report("Resize", "rv1106", "", "airockchip/rknn-toolkit2#560"),
    Report("Transpose", "rv1103", "2.3.2", "airockchip/rknn-toolkit2#145"),
    Report("Transpose", "rv1106", "2.3.0", "airockchip/rknn-toolkit2#316"),
    Report("CumSum", "rk3566", "", "immich-app/immich#17098"),
    Report("Einsum", "rk3588", "2.3.2", "airockchip/rknn-toolkit2#387"),
    Report("GatherElements", "rk3562", "", "k2-fsa/sherpa-onnx#2611"),
    Report("GatherND", "rk3588", "2.0.0-beta0", "airockchip/rknn-toolkit2#93"),
    Report("GridSample", "rk3588", "2.3.2", "airockchip/rknn-toolkit2#478"),
    Report("Mod", "rk3588", "2.3.2", "airockchip/rknn-toolkit2#485"),
)


@dataclass(frozen=True)
class Knowledge:
    """What boards do with a node: `refusal` says that they don't compute it, `note` what else."""

    refusal: Refusal | None = None
    note: str = ""


def refusals(model: CompiledModel, graph: Graph) -> Iterator[Refusal]:
    """The nodes of a graph that a board with a runtime of 2.x doesn't compute."""
    for node in computing_nodes(graph):
        refusal = known(model, node).refusal
        if refusal is not None:
            yield refusal


def known(model: CompiledModel, node: Node) -> Knowledge:
    """What is known of a node on the model's chip; nothing of the NPU's nodes."""
    is_edge = node.op_type in EDGES or not node.op_type
    if node.device is not Device.CPU or is_edge or is_foreign(node):
        return Knowledge()
    op_type = _plain(node.op_type)
    is_mini = model.generation is Generation.MICRO
    reports = [r for r in _REPORTS if r.op_type == op_type and _is_same(r.chip, model.target)]
    is_listed = op_type in (_LISTED_FOR_MINI if is_mini else _LISTED)
    sources = ([] if is_listed else [_LIST]) + [report.source for report in reports]
    refusal = None
    if sources:
        # The newest version that is known to refuse it.
        version = max([r.version for r in reports] + ([] if is_listed else [_LISTED_VERSION]))
        library = "librknnmrt" if is_mini else "librknnrt"
        runtime = f"{library} {version}".strip()
        refusal = Refusal(node.index, node.op_type, node.name, runtime, ", ".join(sources))
    return Knowledge(refusal, "" if is_mini else _note(op_type))


def _is_same(chip: str, target: str) -> bool:
    """Whether a file for a chip runs on another; not where the file's chip isn't known."""
    try:
        return find(target).runs_models_of(find(chip))
    except OptionError:
        return False


def _note(op_type: str) -> str:
    if op_type in _REFUSED_BY_OLD:
        return f"{_OLD_LIBRARY} doesn't have it"
    if op_type in _COMPUTED_OTHERWISE_BY_OLD:
        return f"{_OLD_LIBRARY} {_COMPUTED_OTHERWISE_BY_OLD[op_type]}"
    return ""


def _plain(op_type: str) -> str:
    """An operator's name without the ``ex`` that marks the compiler's own."""
    is_own = op_type.startswith("ex") and op_type[2:3].isupper()
    return op_type[2:] if is_own else op_type
