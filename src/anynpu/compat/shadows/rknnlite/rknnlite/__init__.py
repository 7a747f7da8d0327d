"""A folder for PYTHONPATH: `rknnlite` is anynpu's, in programs that aren't changed."""

from anynpu.compat import install

install("rknnlite")
