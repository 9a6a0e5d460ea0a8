"""Diagnostics: a report about a worker and its host, written whatever hangs, and summed up in a sentence or two."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.phrases import span
from supervisor_core.handlers.context import Host

KIND = "diagnostics"

PART_SECONDS = 12.0
"""For all parts together, which are asked at the same time: a drive that hangs is given up after 10 s."""


def generate_diagnostics(host: Host, job: Job) -> Outcome:
    """Gather everything at once, write the report, and say the most important of it."""
    # Only here, because whoever looks at workers alone must not pay for the import.
    from supervisor_core.adapters.report_parts import gather
    from supervisor_core.handlers.diagnostics_parts import parts_for
    from supervisor_core.handlers.reports import keep_report, masking_of

    begun = time.monotonic()
    worker = host.config.worker(job.worker_id)
    masking = masking_of(host.config)
    parts = gather(parts_for(host, worker, masking), PART_SECONDS, masking)
    unknown = [name for name, part in parts.items() if not part["ok"]]
    took = round(time.monotonic() - begun, 3)
    kept = keep_report(host, job, KIND, {"seconds": took, "unknown_parts": unknown, **parts}, masking)
    details = {"message": summary(worker.id, parts), **kept, "unknown_parts": unknown, **facts(parts)}
    if "report_path" not in kept:
        return Outcome.failed(f"{kept['report_problem']}. Look at the disk of the state folder.", **details)
    return Outcome.done(**details)


def facts(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What programs ask first; None where it is not known."""
    return {
        "running": parts["process"].get("running"),
        "pid": parts["process"].get("pid"),
        "healthy": parts["heartbeat"].get("healthy"),
        "paused": parts["heartbeat"].get("paused"),
        "database_connected": parts["database"].get("connected"),
        "disk_percent_free": parts["disk"].get("drive", {}).get("percent_free"),
    }


def summary(worker_id: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """The report in a sentence or two, as a card shows it."""
    said = [_process(worker_id, parts["process"]), _health(parts["heartbeat"]), _database(parts["database"])]
    said += [_disk(parts["disk"]), _code(parts["git"])]
    unknown = [name.replace("_", " ") for name, part in parts.items() if not part["ok"]]
    text = "; ".join(each for each in said if each)
    return f"{text}. Not known: {', '.join(unknown)}" if unknown else text


def _process(worker_id: str, part: Mapping[str, Any]) -> str:
    if not part["ok"]:
        return f"{worker_id}: its processes are not known"
    if not part["running"]:
        return f"{worker_id} does not run" if part["presence"] == "stopped" else f"{worker_id} may be running"
    up = part["uptime_seconds"]
    return f"{worker_id} runs as pid {part['pid']}" + (f" since {span(up)}" if up is not None else "")


def _health(part: Mapping[str, Any]) -> str:
    if not part["ok"]:
        return ""
    paused = ", paused" if part["paused"] and not part["reason"].startswith("paused") else ""
    return f"{part['health']}: {part['reason']}{paused}"


def _database(part: Mapping[str, Any]) -> str:
    if not part["ok"]:
        return ""
    return "the database answers" if part["connected"] else f"the database can't be reached: {part['message']}"


def _disk(part: Mapping[str, Any]) -> str:
    drive = part.get("drive", {})
    return f"{drive['percent_free']:g} % of the drive is free" if "percent_free" in drive else ""


def _code(part: Mapping[str, Any]) -> str:
    if not part["ok"] or not part["checkout"]:
        return ""
    where = part["branch"] or "no branch"
    return f"code at {part['head'][:8] or 'no commit'} on {where}{', with changes' if part['dirty'] else ''}"
