"""Write every generated page: `python -m tests.reference`, or `make reference`."""

from __future__ import annotations

import sys

from tests.reference.pages import write_changed


def main() -> int:
    for path in write_changed():
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
