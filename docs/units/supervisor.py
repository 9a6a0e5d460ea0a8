"""One pass of the supervisor: python supervisor.py --worker-id OrionMX --config config.dev.yaml"""

import sys

from supervisor_core.compatibility import main

if __name__ == "__main__":
    sys.exit(main())
