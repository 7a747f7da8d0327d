"""The oracle: each description carried out in NumPy, in the order of the file, by address."""
