"""The soft NPU: a software device behind the vendors' C ABI.

`rknn/` says what each rknn_* function does, `engines/` compute a model, `formats/` read model
files, `cabi/` gives foreign programs a shared library to load, `build.py` prepares models.
It imports only declarations and pure functions of the rest of anynpu.
"""
