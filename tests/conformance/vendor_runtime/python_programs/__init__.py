"""Functions that run on a board's Python and on this machine's: they import NumPy and anynpu alone."""
