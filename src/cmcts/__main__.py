"""`python -m cmcts`."""

import sys

from cmcts.cli import main

sys.exit(main())
