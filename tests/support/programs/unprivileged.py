"""Being nobody for a moment: root may read everything, so what happens to others must be tried as one of them.

`python -m tests.support.programs.unprivileged status` is `supervisor status`, run by nobody. Whoever does
not run the tests as root stays who they are.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Act as a user without rights; whoever is not root is one already."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


if __name__ == "__main__":
    import importlib.metadata  # noqa: F401 (before the rights are given up: nobody may not read where these lie)
    import pwd  # noqa: F401

    import supervisor_core.host.permissions  # noqa: F401
    from supervisor_core.cli import main

    for module in ("status", "observe"):
        import_module(f"supervisor_core.cli.{module}")  # nobody may not read them where they lie
    codecs.lookup("utf-8-sig")
    with as_nobody():
        sys.exit(main(sys.argv[1:]))
