"""Many boards in one Ray cluster: `map` sends frames to all of them and brings results back.

    import anynpu.ray

    for results in anynpu.ray.map("detector.rknn", frames):
        ...

Boards are the cluster's nodes with the resource ``npu_core``, one for each core of their NPU:

    ray start --address head:6379 --resources '{"npu_core": 3}'

Needs ``pip install 'anynpu[ray]'``, here and on the boards.
"""

from .boards import Boards
from .datasets import NpuBatches
from .mapping import map  # as a session's

__all__ = ["Boards", "NpuBatches", "map"]
