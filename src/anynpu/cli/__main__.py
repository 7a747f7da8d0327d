"""`python -m anynpu.cli`."""

import sys

from . import main

sys.exit(main())
