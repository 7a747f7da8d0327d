"""What int8 convolutions, sums and pools need for the kernels of `native/npu.c`."""
