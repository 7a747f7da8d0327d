"""Benchmarks: anynpu side by side with what a user would pick instead, as ratios in one run."""
