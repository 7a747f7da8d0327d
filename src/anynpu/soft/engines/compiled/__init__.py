"""Compiled `.rknn` files as programs: inputs and outputs, CPU nodes, and who runs the rest.

What the NPU itself computes is the matter of `engines/rk3588`.
"""
