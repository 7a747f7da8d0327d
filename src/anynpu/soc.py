"""What each chip can do.

Sources: the RKNN C API reference (sections 2 and 4.1), tables 5-1 and 5-2 of the RKNN SDK's user
guide (channel blocks and row alignment), the chips' data sheets (cores); for Allwinner's chips the
guide to its NPU RuntimeAPI (section 1.3) and the target fields of files for them.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from .errors import OptionError
from .tensor import DType

DEVICE_TREE = Path("/proc/device-tree/compatible")
ENVIRONMENT_VARIABLE = "ANYNPU_SOC"


class Family(enum.Enum):
    """The columns of Tables 4-1 and 4-2 of the RKNN C API reference."""

    RK356X = "RK3562/RK3566/RK3568"
    RK3588 = "RK3576/RK3588"
    RV1106 = "RV1103/RV1106"


@dataclass(frozen=True)
class Cost:
    """What work costs an NPU: the constants of the model clock (docs/clock.md).

    `clock` is in Hz. In one cycle a core multiplies `int8_lanes` or `float16_lanes` (channels out,
    channels in) of a convolution, or `depthwise_lanes` channels of a depthwise one. `ddr_bytes` is
    what the memory moves in a cycle by the vendor's prediction. The other constants are fitted to
    published frame rates, or measured: `utilisation` is the share of cycles in which the
    multipliers work, `elements_per_cycle` what the look-up table and the pooling unit do in a
    cycle, `bandwidth` one core's bytes a second from and to memory, `overhead` the seconds that a
    layer takes besides, `call` those that a call does.
    """

    clock: float
    int8_lanes: tuple[int, int]
    float16_lanes: tuple[int, int]
    depthwise_lanes: int
    ddr_bytes: float
    utilisation: float
    elements_per_cycle: float
    bandwidth: float
    overhead: float
    call: float

    def lanes(self, dtype: DType) -> tuple[int, int]:
        """Channels out and in that a core multiplies in a cycle."""
        return self.int8_lanes if dtype is DType.INT8 else self.float16_lanes


@dataclass(frozen=True)
class Soc:
    """One chip.

    `atom_bytes` is the size of a channel block of one pixel (C2 times the element size), and also
    what a row of a native input is aligned to, counted per channel. `library` is the name of the
    vendor's runtime for it. `driver_target` is how that runtime's log calls the NPU. `cost` says
    how fast it is. `pairs_blocks` says that features have an even number of channel blocks.
    `sram_bytes` is the on-chip memory that the NPU may use for intermediate tensors.
    """

    name: str
    family: Family
    cores: int
    atom_bytes: int
    library: str
    driver_target: str
    cost: Cost
    pairs_blocks: bool = False
    sram_bytes: int = 0

    def runs_models_of(self, other: Soc) -> bool:
        """Whether a model for another chip runs on this one: the two differ in name alone.

        So it is with RK3566 and RK3568 (what `RKNNLite.list_support_target_platform` answers), and
        with RV1103 and RV1106, for which the vendor's examples have one model.
        """
        return replace(self, name=other.name) == other

    @property
    def has_small_blocks(self) -> bool:
        """Whether channel blocks have 8 bytes: on RK3566 and RK3568, whose runtime differs."""
        return self.atom_bytes <= 8

    def channel_block(self, dtype: DType) -> int:
        """C2 of the NC1HWC2 layout for an element type."""
        return self.atom_bytes * 8 // dtype.bits

    def channel_blocks(self, channels: int, dtype: DType) -> int:
        """C1 of the NC1HWC2 layout: how many blocks hold that many channels.

        A compiled model may have other counts; seen on RK3588 are 64 -> 4, 80 -> 6 and 1 -> 2 for
        int8, on RK3568 255 -> 32.
        """
        unit = self.channel_block(dtype) * (2 if self.pairs_blocks else 1)
        return -(-channels // unit) * (2 if self.pairs_blocks else 1)

    def width_stride(self, width: int, dtype: DType) -> int:
        """Pixels from one row of a native input to the next: `width` rounded up."""
        unit = self.channel_block(dtype)
        return -(-width // unit) * unit


# Clocks are those that the vendor's model zoo sets to measure its frame rates (its file
# scaling_frequency.sh); RV1103 runs at 420 MHz on a board, and its compiler's prediction fits that.
# Lanes, depthwise ones too, are those with which the compiler's predicted cycles are equal to the
# last one (docs/clock.md), and the blocks in which weights are stored: 32 x 32 is the 1024 of
# RK3588's reference manual, 16 x 32 at 1 GHz the 1 TOPS of RK3562's and RK3568's data sheets.
# RK3576's says 6 TOPS, which would be 48 x 32 for each core; the best published rate uses half of
# that, and the prediction agrees. The predicted memory moves 0.7 of 16, 8 or 4 bytes at the DDR
# clock: 2112 MHz for RK3588, 1333 for RK3576, RK3562 and RV1126B, 1056 for RK3566 (whose NPU it
# counts with 0.9 GHz), 924 for RV1106. The others but the last are fitted:
# `python -m benchmarks.clock_fit`. A call of 28,248 a second is 35 us on RK3588, a layer's overhead
# included; the other chips are taken to be like it.
_CALL = 30e-6
_RK3588 = Cost(1.0e9, (32, 32), (16, 32), 64, 23.654, 0.88, 1.78, 9.64e9, 5.5e-6, _CALL)
_RK3576 = Cost(1.0e9, (32, 32), (16, 32), 64, 7.465, 0.85, 2.77, 8.02e9, 0.0, _CALL)
_RK3562 = Cost(1.0e9, (16, 32), (8, 32), 64, 7.465, 0.83, 0.82, 4.97e9, 0.0, _CALL)
_RK3568 = Cost(1.0e9, (16, 32), (8, 16), 32, 6.571, 0.74, 0.71, 3.05e9, 0.0, _CALL)
# No rates are published for RV1103 and RV1106. Tasks in a chain take 13.5 us each on a RV1103, as
# others measured. The rest is RK3562's, the bandwidth in proportion to clock and width of the
# memories (924 MHz, 16 bits to 1560 MHz, 32 bits).
_RV1106 = replace(
    _RK3562,
    clock=0.42e9,
    depthwise_lanes=32,
    ddr_bytes=6.16,
    bandwidth=_RK3562.bandwidth * (924 * 16) / (1560 * 32),
    overhead=13.5e-6,
)
# Nor for RV1126B, whose registers are those of RK3576: it is taken for one of that one's cores.
_RV1126B = _RK3576

_SOCS = (
    Soc("rk3562", Family.RK356X, 1, 16, "librknnrt", "RKNPU t4", _RK3562),
    Soc("rk3566", Family.RK356X, 1, 8, "librknnrt", "RKNPU lite", _RK3568),
    Soc("rk3568", Family.RK356X, 1, 8, "librknnrt", "RKNPU lite", _RK3568),
    Soc("rk3576", Family.RK3588, 2, 16, "librknnrt", "RKNPU f2", _RK3576, pairs_blocks=True),
    # The kernel's log on RK3588: "sram region: ..., sram size: 0xef000".
    Soc("rk3588", Family.RK3588, 3, 16, "librknnrt", "RKNPU v2", _RK3588, True, 0xEF000),
    Soc("rv1103", Family.RV1106, 1, 16, "librknnmrt", "RKNPU t3", _RV1106),
    Soc("rv1106", Family.RV1106, 1, 16, "librknnmrt", "RKNPU t3", _RV1106),
    # Newer than the reference: it has the large runtime, and like these one core.
    Soc("rv1126b", Family.RK356X, 1, 16, "librknnrt", "RKNPU f3", _RV1126B),
)
SOCS = {soc.name: soc for soc in _SOCS}
DEFAULT = SOCS["rk3588"]


@dataclass(frozen=True)
class VipCost:
    """What work costs a VIP: the constants of its model clock (docs/clock.md).

    `clock` is in Hz. In a cycle all cores of the NN unit make `products` multiply-accumulates;
    `utilisation` is the share of cycles in which they do, `elements_per_cycle` what goes through
    tables and programs in one, `bandwidth` bytes a second from and to memory, `call` the seconds
    that a call takes besides its layers.
    """

    clock: float
    products: int
    utilisation: float
    elements_per_cycle: float
    bandwidth: float
    call: float


@dataclass(frozen=True)
class VipSoc:
    """A chip of Allwinner's, whose NPU (a VIP) runs `.nb` files.

    `npu_version` is how Allwinner's SDK calls the NPU, `target` the number that files for it carry
    and that the NPU answers as its customer id. `cost` says how fast it is, None where
    nobody has published a time.
    """

    name: str
    npu_version: str
    target: int
    cost: VipCost | None = None
    cores: int = 1


# Files have coefficients of eight cores for A733, of six for T527; with 192 products each they
# make the 3 and the 2 TOPS of the data sheets. Clocks are those of boards' logs. A733's other
# constants are fitted to three published times (`python -m benchmarks.vip_clock`); a call takes
# what it does on a Rockchip, and T527's other constants are A733's.
_A733 = VipCost(1.008e9, 8 * 192, 0.6, 1.0, 10e9, _CALL)
_T527 = replace(_A733, clock=0.696e9, products=6 * 192)

_VIP_SOCS = (
    *(VipSoc(name, "v1", 0xEE) for name in ("v853", "v851", "v851s", "r853")),
    *(VipSoc(name, "v2", 0x10000016, _T527) for name in ("t527", "mr527", "ai985")),
    *(VipSoc(name, "v3", 0x1000003B, _A733) for name in ("a733", "t536", "mr536", "t736")),
)
VIP_SOCS = {soc.name: soc for soc in _VIP_SOCS}
VIP_DEFAULT = VIP_SOCS["a733"]


def chips_of_target(target: int) -> tuple[VipSoc, ...]:
    """Allwinner's chips that take files for a target; none for another maker's."""
    return tuple(soc for soc in _VIP_SOCS if soc.target == target)


def find(name: str) -> Soc:
    """The Rockchip of that name, in any case, with or without a package suffix (``RK3588S``).

    Raises `OptionError`, which lists the known names.
    """
    found = find_any(name)
    if isinstance(found, VipSoc):
        raise OptionError(f"{found.name} is a chip of Allwinner's; the RKNN API has {_names(SOCS)}")
    return found


def find_vip(name: str) -> VipSoc:
    """Allwinner's chip of that name; raises `OptionError`, which lists the known names."""
    found = find_any(name)
    if isinstance(found, Soc):
        raise OptionError(f"{found.name} is a Rockchip; VIPLite has {_names(VIP_SOCS)}")
    return found


def find_any(name: str) -> Soc | VipSoc:
    """The chip of that name, whoever made it; raises `OptionError`, which lists the known names."""
    key = name.strip().lower()
    chips: dict[str, Soc | VipSoc] = {**SOCS, **VIP_SOCS}
    for known in sorted(chips, key=len, reverse=True):
        if key == known or (key.startswith(known) and key[len(known) :].isalpha()):
            return chips[known]
    raise OptionError(f"unknown chip {name!r}; known are {_names(chips)}")


def _names(chips: Iterable[str]) -> str:
    return ", ".join(chips)


_ChipT = TypeVar("_ChipT", Soc, VipSoc)
_used: ContextVar[Soc | VipSoc | None] = ContextVar("anynpu_soc", default=None)


@contextmanager
def using(soc: Soc | VipSoc) -> Iterator[None]:
    """Let the soft NPU be this chip for calls inside the block, in this thread."""
    token = _used.set(soc)
    try:
        yield
    finally:
        _used.reset(token)


def chosen() -> Soc | None:
    """The chip of `using`, else the Rockchip that ``$ANYNPU_SOC`` names; None where it is unset."""
    if isinstance(used := _used.get(), Soc):
        return used
    name = os.environ.get(ENVIRONMENT_VARIABLE)
    return _named(find, name) if name else None


def chosen_vip() -> VipSoc | None:
    """The chip of `using`, else Allwinner's that ``$ANYNPU_SOC`` names; None where it is unset."""
    if isinstance(used := _used.get(), VipSoc):
        return used
    name = os.environ.get(ENVIRONMENT_VARIABLE)
    return _named(find_vip, name) if name else None


def _named(find_chip: Callable[[str], _ChipT], name: str) -> _ChipT:
    """The chip that the environment names; the message for another word says so."""
    try:
        return find_chip(name)
    except OptionError as error:
        raise OptionError(
            f"${ENVIRONMENT_VARIABLE} is {name!r}: {error}; set it to one of these, or unset it"
        ) from None


def detect() -> Soc | None:
    """The chip this process runs on, by the device tree; None off a known board."""
    try:
        compatible = DEVICE_TREE.read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    for entry in compatible.split("\0"):
        name = entry.partition(",")[2]
        if name:
            try:
                return find(name)
            except OptionError:
                continue
    return None
