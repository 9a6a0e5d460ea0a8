"""Diagnostics: a report about a worker and its host, written whatever hangs, and summed up in a sentence or two.

Verify-db: whether the database answers, is the right one, has its tables, and speaks UTC.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from supervisor_core.commands.command import Outcome
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

if TYPE_CHECKING:
    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.storage.database_check import Verification

KIND = "diagnostics"

PART_SECONDS = 12.0
"""The timeout of all parts, which run at the same time; a hanging drive times out after 10 s."""


def generate_diagnostics(host: HostContext, job: Job) -> Outcome:
    """Gather all parts at the same time, write the report, and summarize it."""
    # Only here, because whoever looks at workers alone must not pay for the import.
    from supervisor_core.diagnosis.reports.files import gather, keep_report, masking_of
    from supervisor_core.diagnosis.reports.parts import parts_for

    begun = time.monotonic()
    worker = host.config.worker(job.worker_id)
    masking = masking_of(host.config)
    parts = gather(parts_for(host, worker, masking), PART_SECONDS, masking)
    unknown = [name for name, part in parts.items() if not part["ok"]]
    took = round(time.monotonic() - begun, 3)
    kept = keep_report(host, job, KIND, {"seconds": took, "unknown_parts": unknown, **parts}, masking)
    details = {"message": summary(worker.id, parts), **kept, "unknown_parts": unknown, **facts(parts)}
    if "report_path" not in kept:
        return Outcome.failed(f"{kept['report_problem']}. Check the disk of the state folder.", **details)
    return Outcome.done(**details)


def facts(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The most requested facts for programs; None where unknown."""
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
    said += [_folders(parts["folders"]), _disk(parts["disk"]), _code(parts["git"])]
    unknown = [name.replace("_", " ") for name, part in parts.items() if not part["ok"]]
    text = "; ".join(each for each in said if each)
    return f"{text}. Unknown: {', '.join(unknown)}" if unknown else text


def _process(worker_id: str, part: Mapping[str, Any]) -> str:
    if not part["ok"]:
        return f"{worker_id}: processes unknown"
    if not part["running"]:
        return f"{worker_id} isn't running" if part["presence"] == "stopped" else f"{worker_id} may be running"
    up = part["uptime_seconds"]
    runs = "is running" if up is None else f"has been running for {format_span(up)}"
    return f"{worker_id} {runs} (pid {part['pid']})"


def _health(part: Mapping[str, Any]) -> str:
    if not part["ok"]:
        return ""
    paused = ", paused" if part["paused"] and not part["reason"].startswith("paused") else ""
    return f"{part['health']}: {part['reason']}{paused}"


def _database(part: Mapping[str, Any]) -> str:
    if not part["ok"]:
        return ""
    return "the database responds" if part["connected"] else f"the database can't be reached: {part['message']}"


def _folders(part: Mapping[str, Any]) -> str:
    if not part["ok"] or not part["missing"]:
        return ""
    names = ", ".join(str(part[name]["path"]) for name in part["missing"])
    are = "s are" if part["missing_count"] > 1 else " is"
    return f"{part['missing_count']} folder{are} missing or unreadable: {names}"


def _disk(part: Mapping[str, Any]) -> str:
    drive = part.get("drive", {})
    return f"{drive['percent_free']:g}% of the drive is free" if "percent_free" in drive else ""


def _code(part: Mapping[str, Any]) -> str:
    if not part["ok"] or not part["checkout"]:
        return ""
    where = part["branch"] or "no branch"
    return (
        f"code at {part['head'][:8] or 'no commit'} on {where}{', with uncommitted changes' if part['dirty'] else ''}"
    )


DATABASE_REPORT = "db_verification"

LEDGER_TABLES = ("jobs_t", "workers_t", "audit_log_t")
ARCHIVE_TABLES = ("containers_t", "jobs_t", "segments_t")
"""Tables that a shared database may have for its other programs."""
SHARED_TABLES = ("containers_t", "jobs_t", "workers_t", "segments_t", "audit_log_t")

REMEDIES = {
    "connection": "Check that the server is up and database.url is right.",
    "table": "If the table is missing, check database.critical_tables. If it's slow, look for a lock on it.",
    "time zone": "Something between this host and the server drops our settings. Check the proxy and the URL.",
}


def verify_database(host: HostContext, job: Job) -> Outcome:
    """Check the configured database, or else the ledger, and write a report."""
    # Only here, because whoever looks at workers alone must not pay for the import.
    from supervisor_core.diagnosis.reports.files import keep_report, masking_of
    from supervisor_core.storage.database_check import verify

    database, masking = host.config.database, masking_of(host.config)
    named = database.critical_tables
    is_shared = not host.config.shared_database_disabled
    tables = named or (SHARED_TABLES if is_shared else LEDGER_TABLES)
    may_lack = ARCHIVE_TABLES if is_shared and not named else ()
    found = verify(database_url(host.config), tables, database.query_timeout_seconds, if_present=may_lack)
    content = {
        **found.facts(),
        "database": database_name(host.config),
        "passed": found.passed,
        "tests": [each.as_json() for each in found.asked],
    }
    details: dict[str, Any] = masking.ours(content)
    details |= keep_report(host, job, DATABASE_REPORT, details, masking)
    if found.passed:
        return Outcome.done(message=_good_news(found), **details)
    error = masking.text(f"{_bad_news(found)} {_remedy(found)}".rstrip())
    return Outcome.failed(error, message=f"{len(found.failures)} of {len(found.asked)} tests failed", **details)


def database_url(config: SupervisorConfig) -> str:
    """The URL of the shared database, else of the ledger."""
    from supervisor_core.storage.ledger_file import LEDGER_FILE

    return config.database.url.get_secret_value() or f"sqlite:///{config.state_dir / LEDGER_FILE}"


def database_name(config: SupervisorConfig) -> str:
    """The database's name for people, without secrets."""
    return str(config.database.url) or "the ledger"


def _good_news(found: Verification) -> str:
    named = found.session.name if found.session else "the database"
    seconds = sum(each.seconds for each in found.asked)
    return f"{named} is healthy: {len(found.asked)} of {len(found.asked)} tests passed in {seconds:.2f} s"


def _bad_news(found: Verification) -> str:
    """Describe the failures. Checks skipped without a connection aren't repeated."""
    if not found.connected:
        return f"The database can't be reached: {found.failures[0].message}."
    return f"The database failed a check: {'; '.join(f'{each.name}: {each.message}' for each in found.failures)}."


def _remedy(found: Verification) -> str:
    name = found.failures[0].name
    return next((remedy for start, remedy in REMEDIES.items() if name.startswith(start)), "")
