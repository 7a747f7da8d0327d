"""Shaders by their programs: what no family knows.

`instructions` declares every instruction and every bit of it, `launch` says which work items there
are, `execution` runs a program on all of them at once, an array a register. What isn't declared is
refused by name when a file is loaded.
"""
