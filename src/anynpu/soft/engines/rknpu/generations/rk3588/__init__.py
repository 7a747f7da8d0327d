"""RK3588: the chip whose registers the TRM describes."""
