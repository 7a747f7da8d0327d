"""Models for other programs: the Open Inference Protocol v2, by REST and gRPC.

`anynpu serve` runs it. `protocol/` is the protocol's messages and calls, `tensors.py` its tensors:
these two are the client's as well, and import neither a web server nor a session.
"""
