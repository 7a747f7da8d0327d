"""The soft NPU: a software device behind the vendors' C ABI.

`rknn/` says what each rknn_* function does, `viplite/` what each vip_* and awnn_* function does;
`engines/` compute a model, `formats/` read model files, `cabi/` gives foreign programs shared
libraries to load (`libraries.py` lists them), `build.py` prepares models.
It imports only declarations and pure functions of the rest of anynpu.
"""
