"""Functions for a board's Python and this machine's: they import NumPy and anynpu alone."""
