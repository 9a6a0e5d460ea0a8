"""`python -m supervisor_core --worker-id ID --config FILE`: the single pass, for task schedulers."""

import sys

from supervisor_core.cli import main

if __name__ == "__main__":
    sys.exit(main(["once", *sys.argv[1:]]))
