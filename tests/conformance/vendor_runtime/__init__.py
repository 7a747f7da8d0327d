"""The vendor's own runtime on the simulated kernel driver, beside the soft NPU."""
