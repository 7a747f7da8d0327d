"""A board's program with the vendor's own library on this machine, our engine as the NPU.

A library that is loaded into the program before all others stands in for the kernel's driver; what
it is asked to compute, a server in another process computes from the memory that both see.
"""

from .board import Board
from .launch import Launch, Settings
from .server import Server

__all__ = ["Board", "Launch", "Server", "Settings"]
