"""A check as it is told, and how checks are made: beside each other, each with an edge of its own and a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.threads import DaemonThreads

LONGEST_SECONDS = 20.0
"""For all checks together: a drive that hangs is given up after 10 s, a look into the ledger after as long."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `remedy` is what a person should do; empty where there is nothing to do.

    One that is ok and has a remedy is a warning: all works, and somebody should look at it.
    """

    name: str
    ok: bool
    message: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """For `doctor --json`."""
        return {"name": self.name, "ok": self.ok, "message": self.message, "remedy": self.remedy}


def examine(looks: Mapping[str, Callable[[], Check]], seconds: float = LONGEST_SECONDS) -> list[Check]:
    """Make all checks at the same time, and come back with all of them when the time is over."""
    threads = DaemonThreads("doctor", len(looks))
    deadline = time.monotonic() + seconds
    under_way = {name: threads.submit(_at_the_edge, name, look) for name, look in looks.items()}
    return [_result(name, future, deadline) for name, future in under_way.items()]


def _result(name: str, future: Future[Check], deadline: float) -> Check:
    try:
        return future.result(max(deadline - time.monotonic(), 0.0))
    except FutureTimeout:
        return Check(
            name, False, "this could not be found out in time", "Something hangs: look at the disk and its mount."
        )


def _at_the_edge(name: str, look: Callable[[], Check]) -> Check:
    """Whatever goes wrong while one thing is looked at, the others are still told."""
    try:
        return look()
    except SupervisorError as error:
        return Check(name, False, error.message, error.remedy)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = "Run this as the user to whom it belongs." if isinstance(error, PermissionError) else ""
        return Check(name, False, f"{where}{error.strerror or type(error).__name__}", remedy)
    except Exception as error:  # noqa: BLE001 (the edge of a check: it fails alone)
        return Check(name, False, f"something unexpected went wrong: {describe(error)}")
