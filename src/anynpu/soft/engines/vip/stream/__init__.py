"""The stream processor: programs of instructions that run over a stream of elements.

`flow` makes of a program what it computes, `evaluation` computes it on arrays; `arithmetic` and
`tables` are the unit's functions.
"""
