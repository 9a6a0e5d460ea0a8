"""Defects planted into the records of a fleet, each of which breaks a rule: they show that the checker checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from supervisor_core.commands.definitions import Tier
from supervisor_core.workers.conditions import Condition
from tests.support.daemon.fleet_faults.records import FleetRecord, LedgerRecord, Row

Plant = Callable[[FleetRecord], FleetRecord]


def _hub_job_dropped(record: FleetRecord) -> FleetRecord:
    return _with_hub(record, jobs=_without(record.hub.jobs, _last_done(record.hub.jobs)))


def _hub_job_doubled(record: FleetRecord) -> FleetRecord:
    return _with_hub(record, jobs=[*record.hub.jobs, _last_done(record.hub.jobs)])


def _job_left_open(record: FleetRecord) -> FleetRecord:
    job = _last_done(record.hub.jobs)
    return _with_hub(record, jobs=_changed(record.hub.jobs, job, state="claimed"))


def _other_outcome_in_the_hub(record: FleetRecord) -> FleetRecord:
    job = _last_done(record.hub.jobs)
    return _with_hub(record, jobs=_changed(record.hub.jobs, job, success=not job["success"]))


def _two_jobs_started_in_the_other_order(record: FleetRecord) -> FleetRecord:
    host, first, second = _two_of_one_tier(record)
    jobs = _changed(record.hosts[host].jobs, first, started_at=second["started_at"])
    return _with_host(record, host, jobs=_changed(jobs, second, started_at=first["started_at"]))


def _every_effect_doubled(record: FleetRecord) -> FleetRecord:
    worker, notes = max(record.notes.items(), key=lambda item: len(item[1]))
    return replace(record, notes={**record.notes, worker: [each for each in notes for _ in range(2)]})


def _audit_row_altered(record: FleetRecord) -> FleetRecord:
    host, ledger = max(record.hosts.items(), key=lambda item: len(item[1].audit))
    rows = ledger.audit
    return _with_host(record, host, audit=_changed(rows, rows[0], actor="somebody else"))


def _end_without_an_audit_row(record: FleetRecord) -> FleetRecord:
    host, job = next((host, job) for host, ledger in record.hosts.items() for job in ledger.jobs if job["success"])
    rows = [row for row in record.hosts[host].audit if row["task_id"] != job["task_id"]]
    return _with_host(record, host, audit=rows)


def _card_doubled(record: FleetRecord) -> FleetRecord:
    again = [each for each in record.messages if each.subject == _subject(record)]
    return replace(record, messages=[*record.messages, *again])


def _card_without_the_end(record: FleetRecord) -> FleetRecord:
    shown = [replace(each, text="") if each.subject == _subject(record) else each for each in record.messages]
    return replace(record, messages=shown)


def _alert_without_a_cause(record: FleetRecord) -> FleetRecord:
    first = _told_alert(record)
    return _with_hub(record, alerts=_changed(record.hub.alerts, first, target_id="elsewhere"))


DEFECTS: Mapping[str, Plant] = {
    "nothing is lost": _hub_job_dropped,
    "nothing is doubled": _hub_job_doubled,
    "everything ends": _job_left_open,
    "hub has the rows of its hosts": _other_outcome_in_the_hub,
    "order is kept": _two_jobs_started_in_the_other_order,
    "effects happen once": _every_effect_doubled,
    "audit chains are whole": _audit_row_altered,
    "every end is audited once": _end_without_an_audit_row,
    "every card ends": _card_without_the_end,
    "no message is doubled": _card_doubled,
    "alerts open and close once": _alert_without_a_cause,
}
"""For each rule, what breaks it."""


def _with_hub(record: FleetRecord, **rows: Sequence[Row]) -> FleetRecord:
    return replace(record, hub=_changed_ledger(record.hub, rows))


def _with_host(record: FleetRecord, host: str, **rows: Sequence[Row]) -> FleetRecord:
    return replace(record, hosts={**record.hosts, host: _changed_ledger(record.hosts[host], rows)})


def _changed_ledger(ledger: LedgerRecord, rows: Mapping[str, Sequence[Row]]) -> LedgerRecord:
    return replace(ledger, **rows)


def _without(rows: Iterable[Row], row: Row) -> list[Row]:
    return [each for each in rows if each is not row]


def _changed(rows: Iterable[Row], row: Row, **values: object) -> list[Row]:
    return [{**each, **values} if each is row else each for each in rows]


def _last_done(jobs: Sequence[Row]) -> Row:
    return next(job for job in reversed(jobs) if job["success"])


def _two_of_one_tier(record: FleetRecord) -> tuple[str, Row, Row]:
    """Two jobs of one worker that were sent and ran one after the other, each the first of its command on its host."""
    sent = {job["task_id"] for job in record.hub.jobs if job["claimed_at"]}
    for host, ledger in record.hosts.items():
        firsts = {job["task_id"]: job for job in reversed(ledger.jobs)}.values()
        acting = [job for job in firsts if job["tier"] == Tier.LIFECYCLE and job["success"] and job["task_id"] in sent]
        for first, second in permutations(acting, 2):
            later = all(first[name] < second[name] for name in ("job_id", "filed_at", "started_at"))
            if later and first["worker_id"] == second["worker_id"]:
                return host, first, second
    raise AssertionError("no worker did two things")


def _told_alert(record: FleetRecord) -> Row:
    """An alert with a message of its own."""
    alone = (alert for alert in record.hub.alerts if alert["told_at"] and not alert["parent_id"])
    return next(alert for alert in alone if alert["condition"] != Condition.DEAF)


def _subject(record: FleetRecord) -> str:
    return str(_last_done(record.hub.jobs)["task_id"])
