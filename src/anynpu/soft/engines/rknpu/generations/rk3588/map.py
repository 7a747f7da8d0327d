"""All registers of RK3588."""

from __future__ import annotations

from ...registers import ppu
from ...registers.map import RegisterMap, registers_of
from . import cna, core, dpu, rdma
from .inert import ALWAYS_ZERO, INERT

REGISTERS = RegisterMap(registers_of(cna, core, dpu, rdma, ppu), INERT, ALWAYS_ZERO)
