"""Plans that run C kernels: what the reference does, with the same bytes."""
