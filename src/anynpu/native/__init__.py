"""The C helpers: where their sources and builds are, and how to compile them."""
