"""A check of `supervisor doctor`, its result, and how checks run: side by side, each with a time limit of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.permissions import why_denied

LONGEST_SECONDS = 20.0
"""A drive that hangs is given up after 10 s, a look into the ledger after as long."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. `remedy` is what a person should do; one that is ok and has a remedy is a warning."""

    name: str
    ok: bool
    message: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the doctor's table. What it can't find out in time, or at all, is a failed result with its name."""

    name: str
    run: Callable[[SupervisorConfig], CheckResult | Sequence[CheckResult]]
    seconds: float = LONGEST_SECONDS


def run_checks(table: Sequence[Check], config: SupervisorConfig) -> list[CheckResult]:
    threads = DaemonThreads("doctor", len(table))
    begun = time.monotonic()
    running = [(check, threads.submit(_run, check, config)) for check in table]
    results: list[CheckResult] = []
    for check, future in running:
        try:
            results += future.result(max(begun + check.seconds - time.monotonic(), 0.0))
        except FutureTimeout:
            remedy = "Something hangs. Check the disk and its mount."
            results.append(CheckResult(check.name, False, "the check timed out", remedy))
    return results


def _run(check: Check, config: SupervisorConfig) -> Sequence[CheckResult]:
    """The edge of a check: it fails alone."""
    try:
        found = check.run(config)
    except SupervisorError as error:
        return [CheckResult(check.name, False, error.message, error.remedy)]
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = ""
        if isinstance(error, PermissionError):
            remedy = (why_denied(error.filename)[1] if error.filename else "") or "Run this as the owner."
        return [CheckResult(check.name, False, f"{where}{error.strerror or type(error).__name__}", remedy)]
    except Exception as error:  # noqa: BLE001 (the edge of a check)
        return [CheckResult(check.name, False, f"unexpected error: {describe(error)}")]
    return [found] if isinstance(found, CheckResult) else found
