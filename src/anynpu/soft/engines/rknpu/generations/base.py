"""What decoding asks of a chip, besides its registers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from ..addresses import AddressSpace
from ..command_stream import TaskState
from ..elements import Address, Element
from ..registers.blocks import Enabled
from ..registers.fields import Field, Register
from ..registers.map import RegisterMap
from ..registers.quantities import Quantity
from ..task_registers import Constants, Derived, TaskRegisters
from ..tasks import DenseWriter, Dpu, InputConversion, Writer
from .settings import ElementwiseSettings, StageSettings

_FROM_CORE = Enabled.CNA | Enabled.CORE | Enabled.DPU


@dataclass(frozen=True)
class Groups:
    """How many kernels and channels lie side by side in weights, by the size of an element."""

    kernels: Mapping[int, int]
    channels: Mapping[int, int]
    depthwise: Mapping[int, int]


class Generation(ABC):
    """A chip: its registers, how it lays out memory, and what its tasks' registers say."""

    registers: RegisterMap
    derived: Mapping[Quantity, Derived]
    """Quantities that follow from several fields."""

    groups: Groups
    operand_group: int
    """Channels whose biases, offsets and factors lie together."""

    atom = 16
    """Bytes of a pixel in one channel block."""

    convolutions = frozenset({_FROM_CORE, _FROM_CORE | Enabled.RDMA})
    """Which blocks a convolution starts."""

    def atom_of(self, element: Element) -> int:
        """Bytes of a pixel of an element in one channel block: of one of four bytes 16 on all."""
        return Generation.atom if element.size == 4 else self.atom

    def task(
        self, state: TaskState, addresses: AddressSpace, constants: Constants
    ) -> TaskRegisters:
        """A task's registers; raises `ModelError` for what they can't mean."""
        task = TaskRegisters(state, self.registers, self.derived, addresses, constants)
        task.check_words()
        self.check(task)
        return task

    @abstractmethod
    def check(self, task: TaskRegisters) -> None:
        """Raise `ModelError` where registers contradict each other."""

    def fetched(self, state: TaskState, before: TaskState | None) -> TaskState:
        """The task as one that reads all its input from memory.

        `before` is the last one that started the CNA, as it is.
        """
        return state

    @abstractmethod
    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        """What the CNA does to its input."""

    @abstractmethod
    def stages(self, task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
        """The first and the second stage of the DPU."""

    @abstractmethod
    def elementwise(self, task: TaskRegisters) -> ElementwiseSettings | None:
        """The third stage."""

    def packer(
        self, task: TaskRegisters, shape: tuple[int, int, int], address: Address, together: int
    ) -> Writer | None:
        """What packs atoms of a shape (surfaces, height, width) in a way of the chip's own.

        Of each surface that was read `together` are written.
        """
        return None

    def reduced(self, task: TaskRegisters, dpu: Dpu, shape: tuple[int, int, int]) -> Dpu:
        """The DPU of a convolution whose results (C, H, W) are reduced."""
        return dpu

    def reduction_writer(
        self,
        task: TaskRegisters,
        shape: tuple[int, int, int],
        element: Element,
        address: Address,
    ) -> Writer:
        """What writes reduced values of a shape (surfaces, height, width)."""
        return DenseWriter(address)


def always(value: int, where: Field | type[Register]) -> Derived:
    """A quantity that is the same on all tasks of a chip."""
    return Derived(lambda task: value, where)
