"""Shaders, by the names of the layers that run them.

A shader's machine code isn't executed: its name, the images that it gets and its constants say what
it does. A module has one family; `names` lists them.
"""
