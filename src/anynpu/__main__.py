"""`python -m anynpu`: the `anynpu` command of this very Python."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
