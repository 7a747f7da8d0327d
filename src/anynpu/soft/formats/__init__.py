"""Model files, read from bytes to immutable descriptions."""
