"""`python -m supervisor_core.cli`: the same as the console script `supervisor`."""

import sys

from supervisor_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
