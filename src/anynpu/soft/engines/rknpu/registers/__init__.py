"""The NPU's registers: number, name and bit fields of each, declared once.

Names are those of the open rocket driver (Mesa, `registers.xml`, MIT) and of the RK3588 TRM,
part 1, section 36.4. One module a block; `inert` has those that only steer buffers, clocks and
bursts, which change when a result is there and not what it is. Strides that the manual counts in
atoms of 16 bytes from bit 4 on are byte counts as a whole, and are declared as such.
"""

from . import cna, core, dpu, inert, ppu, rdma

__all__ = ["cna", "core", "dpu", "inert", "ppu", "rdma"]
