"""The soft NPU's C side: callbacks, memory seen through pointers, the shared library's build."""
