"""Where the fields of a compiled file's tables are: the slots of both variants of the schema."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RootSlots:
    """None where a variant has no such field."""

    format: int
    generation: int
    graphs: int
    compiler: int
    target: int
    framework: int
    custom_string: int | None
    batch: int | None
    shape_mode: int | None
    memory: int | None
    sections: int | None


@dataclass(frozen=True)
class GraphSlots:
    tensors: int
    nodes: int
    inputs: int
    outputs: int
    normalizations: int
    relocations: int | None
    task_bounds: int | None


@dataclass(frozen=True)
class TensorSlots:
    element: int
    layout: int
    kind: int
    native_shape: int
    shape: int
    name: int
    minimum: int | None
    maximum: int | None
    scale: int
    zero_point: int
    size: int
    offset: int
    section: int | None


@dataclass(frozen=True)
class NodeSlots:
    op_type: int
    name: int
    device: int
    inputs: int
    outputs: int
    options_kind: int
    options: int
    attributes: int
    task_counts: int | None
    tasks: int | None = None


@dataclass(frozen=True)
class TaskSlots:
    """Of a task that its node lists."""

    commands: int
    table: int
    enable_mask: int
    addresses: int
    cores: int


@dataclass(frozen=True)
class Slots:
    """`task` is there where tasks are listed by their nodes, not in a section of their own."""

    root: RootSlots
    graph: GraphSlots
    tensor: TensorSlots
    node: NodeSlots
    task: TaskSlots | None = None


# Container 6: RK3562, RK3566, RK3568, RK3576, RK3588.
STANDARD = Slots(
    RootSlots(
        format=0,
        generation=1,
        graphs=2,
        compiler=7,
        target=8,
        framework=9,
        custom_string=11,
        batch=14,
        shape_mode=16,
        memory=19,
        sections=20,
    ),
    GraphSlots(
        tensors=0, nodes=1, inputs=2, outputs=3, normalizations=4, relocations=7, task_bounds=10
    ),
    TensorSlots(
        element=0,
        layout=1,
        kind=2,
        native_shape=3,
        shape=4,
        name=5,
        minimum=8,
        maximum=9,
        scale=10,
        zero_point=11,
        size=12,
        offset=13,
        section=18,
    ),
    NodeSlots(
        op_type=1,
        name=2,
        device=3,
        inputs=4,
        outputs=5,
        options_kind=7,
        options=8,
        attributes=9,
        task_counts=10,
    ),
)

# Containers before 6, format 1: RK3562, RK3566, RK3568, RK3588.
EARLY = Slots(
    replace(STANDARD.root, sections=4),
    replace(STANDARD.graph, relocations=None, task_bounds=None),
    STANDARD.tensor,
    replace(STANDARD.node, task_counts=None, tasks=6),
    TaskSlots(commands=0, table=1, enable_mask=3, addresses=5, cores=8),
)

# Container 0x1004: RV1103, RV1106.
MICRO = Slots(
    RootSlots(
        format=0,
        generation=1,
        graphs=2,
        compiler=5,
        target=6,
        framework=7,
        custom_string=8,
        batch=None,
        shape_mode=None,
        memory=None,
        sections=None,
    ),
    GraphSlots(
        tensors=0, nodes=1, inputs=2, outputs=3, normalizations=4, relocations=5, task_bounds=None
    ),
    TensorSlots(
        element=0,
        layout=1,
        kind=2,
        native_shape=3,
        shape=4,
        name=5,
        minimum=None,
        maximum=None,
        scale=6,
        zero_point=7,
        size=8,
        offset=9,
        section=None,
    ),
    NodeSlots(
        op_type=1,
        name=2,
        device=3,
        inputs=4,
        outputs=5,
        options_kind=6,
        options=7,
        attributes=8,
        task_counts=9,
    ),
)
