"""A matrix product on the NPU: int8 times int8, exact in int32.

python matmul.py
"""

import numpy as np

import anynpu

rng = np.random.default_rng(1)
a = rng.integers(-128, 128, (8, 256), dtype=np.int8)
b = rng.integers(-128, 128, (256, 64), dtype=np.int8)

product = anynpu.matmul(a, b)
print(f"{a.shape} x {b.shape} = {product.shape} {product.dtype}")
expected = a.astype(np.int32) @ b.astype(np.int32)
print("as NumPy computes it:", np.array_equal(product, expected))
