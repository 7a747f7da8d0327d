"""`python -m anynpu.compat rknnlite`: the folder that shadows a package, for PYTHONPATH."""

import sys
from pathlib import Path

_SHADOWS = Path(__file__).parent / "shadows"

if __name__ == "__main__":
    known = sorted(folder.name for folder in _SHADOWS.iterdir() if folder.is_dir())
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        sys.exit(f"usage: python -m anynpu.compat PACKAGE, which is one of {', '.join(known)}")
    print(_SHADOWS / sys.argv[1])
