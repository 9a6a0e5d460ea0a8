"""`supervisor`, run while its calls to the drive are recorded.

`python -m tests.support.programs.watched_drive ROOT REPORT run` is `supervisor run`.

Python reports each call that opens, lists or changes a file by its path. Whatever names a path below ROOT didn't go
through `drive_files`, which names everything relative to an open folder; it's written to REPORT with the way there.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

EVENTS = frozenset(
    (
        *("open", "os.chmod", "os.chown", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir"),
        *("os.scandir", "os.symlink", "os.truncate", "os.utime"),
    )
)


def watch(root: str, report: int) -> None:
    """From now on, report every path below the root."""
    below = root.rstrip(os.sep) + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS:
            return
        paths = [os.fsdecode(each) for each in arguments if isinstance(each, str | bytes | os.PathLike)]
        if any(path.startswith(below) for path in paths):
            way = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(traceback.extract_stack()[-6:-1]))
            os.write(report, f"{event} {paths} {way}\n".encode())

    sys.addaudithook(hook)


if __name__ == "__main__":
    from supervisor_core.cli import main

    watch(sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    sys.exit(main(sys.argv[3:]))
