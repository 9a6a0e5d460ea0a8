"""Starts the command line with a crash point armed, from outside: `python -m tests.support.programs.armed POINT run …`.

POINT is a name, or `name#3` for the third time it is passed; the process then kills itself as `kill -9` would. With
`first>second` only the times count at which `second` is passed after `first`. With
`trace:FILE` instead, every point that is passed is written to that file, a line each.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from supervisor_core.common import crashpoints

BESIDE = {"flips_t.written:before", "flips_t.written:after"}
"""Points that lie on no road of a command: what looks at the workers see is written whenever it is seen."""


def armed(point: str) -> tuple[str, ...]:
    """The program that is the command line with this point armed."""
    return (sys.executable, "-m", "tests.support.programs.armed", point)


def distinct(points: Sequence[str]) -> list[str]:
    """The points of a road that leave something else behind: the next `b:before` is as good as `a:after`."""
    return [point for index, point in enumerate(points) if index == 0 or ":before" not in point]


def arm(point: str) -> None:
    """Replace the empty `reach` by one that looks for this point."""
    if point.startswith("trace:"):
        _trace(Path(point.removeprefix("trace:")))
        return
    steps = [(name, int(count or 1)) for name, _, count in (each.partition("#") for each in point.split(">"))]
    passed, lock = 0, threading.Lock()

    def reach(name: str) -> None:
        nonlocal passed
        with lock:
            wanted, count = steps[0]
            passed += name == wanted
            if name != wanted or passed < count:
                return
            passed = 0
            if len(steps) > 1:
                steps.pop(0)
            else:
                os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()  # never goes on from here

    crashpoints.reach = reach


def _trace(path: Path) -> None:
    lock = threading.Lock()

    def reach(name: str) -> None:
        with lock, path.open("a") as file:
            file.write(f"{name}\n")

    crashpoints.reach = reach


if __name__ == "__main__":
    arm(sys.argv[1])
    from supervisor_core.cli import main

    sys.exit(main(sys.argv[2:]))
