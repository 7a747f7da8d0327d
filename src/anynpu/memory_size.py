"""What a model takes on its device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemorySize:
    """Bytes of a model's weights, of its intermediate tensors, of all that the driver allocated.

    `sram` is on-chip memory, `free_sram` what is left of it. None is what a vendor doesn't tell:
    VIPLite knows the intermediate tensors' memory pool alone.
    """

    internal: int
    weights: int | None = None
    dma_allocated: int | None = None
    sram: int | None = None
    free_sram: int | None = None
