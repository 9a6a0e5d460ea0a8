"""What the handlers that stop a worker say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor_core.adapters.processes_stop import StopReport
from supervisor_core.domain.command import Outcome


def stop_details(report: StopReport) -> dict[str, Any]:
    """How the worker ended, for results and the audit trail."""
    return {
        "ending": str(report.ending),
        "stopped_in_seconds": round(report.seconds, 3),
        "exit_code": report.exit_code,
        "killed": [str(member) for member in report.killed],
    }


def stuck(report: StopReport, details: Mapping[str, Any], so: str = "") -> Outcome:
    """Something of the worker survived: a failure that names it. `so` says what was not done because of it."""
    survivors = [str(member) for member in report.survivors]
    return Outcome.failed(
        f"{report.worker_id} is stuck: {', '.join(survivors)} could not be ended. {so}{' ' if so else ''}"
        "A process that not even KILL ends waits inside the kernel, mostly for a drive: look there.",
        **{**details, "message": f"{report.worker_id} is stuck", "survivors": survivors},
    )
