"""The rows that a hub copies from a host's ledger: jobs, the audit trail and condition changes, each in its order.

The host's ledger is the truth, and the hub asks for what follows the newest rows that it has. So nothing is kept for
the hub, and after a minute or a month apart the copying goes on where it ended: in order, and each row once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from supervisor_core.alerts.flips import current_host_conditions
from supervisor_core.commands.addresses import Address, details_with_addresses, with_addresses, workers_in
from supervisor_core.commands.targets import can_have_address
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import to_text
from supervisor_core.fleet import reports
from supervisor_core.jobs import remote
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import GENESIS, AuditEntry
from supervisor_core.storage.steps import record
from supervisor_core.storage.tables import audit_log, flips, forwarding, jobs
from supervisor_core.workers.conditions import LINK, Condition, Reading, Target, TargetReading

MOST_ROWS = 500
MOST_CHARACTERS = 400_000
"""Of one batch: a message holds 1 MB, and quotes in JSON take two characters."""

HUB_ID, REFUSED = "fleet:hub", "REFUSED"
"""The actor and the action of a row about a refused message."""

WORDS = 200
"""Characters of its reason."""

REPLACED = (
    "Check it on {host} with `supervisor audit verify`. If its ledger was replaced, give the host a supervisor.id of "
    "its own and join it again."
)
"""The remedy for an audit trail that differs from the hub's copy."""

Row = dict[str, Any]


class DivergedLedger(SupervisorError):
    """A host's rows don't follow those that the hub has."""


class Position(NamedTuple):
    """The newest rows: the number of the last change of a job, of the audit row, and of the condition change."""

    jobs: int = 0
    audit: int = 0
    flips: int = 0

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Position:
        return cls(*(int(document[name]) for name in cls._fields))

    def is_behind(self, other: Position) -> bool:
        return any(own < new for own, new in zip(self, other, strict=True))

    def check_kept(self, host: str, newest: Position) -> None:
        """Raise `DivergedLedger` if this host's own trail ends before this position of the hub."""
        if newest.audit < self.audit:
            raise DivergedLedger(
                f"The hub has the audit trail of {host} up to row {self.audit}, but {host} has it only up to row "
                f"{newest.audit}.",
                remedy=REPLACED.format(host=host),
            )


class Origin(NamedTuple):
    """The owner of the rows: a new ledger, or one with another name, begins from the start."""

    ledger_id: str
    supervisor_id: str


def origin_of(connection: Connection, supervisor_id: str) -> Origin:
    """The identity of this ledger, made by the first call, in a transaction that may write."""
    known = connection.execute(select(forwarding.c.ledger_id).limit(1)).scalar()
    origin = Origin(known or uuid.uuid4().hex, supervisor_id)
    if copied_changes(connection, origin) is None:
        connection.execute(insert(forwarding), {**origin._asdict(), "jobs_changed": 0})
    return origin


def copied_changes(connection: Connection, origin: Origin) -> int | None:
    """The number of the last change of a job that is copied from this ledger; None before the first."""
    own = (forwarding.c.ledger_id == origin.ledger_id, forwarding.c.supervisor_id == origin.supervisor_id)
    return connection.execute(select(forwarding.c.jobs_changed).where(*own)).scalar()


def newest_rows(connection: Connection, supervisor_id: str) -> Position:
    changed = connection.execute(select(func.max(jobs.c.changed))).scalar() or 0
    return Position(changed, _newest_audit(connection, supervisor_id), _newest_flip(connection, supervisor_id))


def rows_after(connection: Connection, supervisor_id: str, position: Position) -> dict[str, list[Row]]:
    newer = select(jobs).where(jobs.c.changed > position.jobs).order_by(jobs.c.changed)
    own = audit_log.c.supervisor_id == supervisor_id
    trail = select(audit_log).where(own, audit_log.c.audit_id > position.audit).order_by(audit_log.c.audit_id)
    mine = flips.c.supervisor_id == supervisor_id
    turns = select(flips).where(mine, flips.c.flip_id > position.flips).order_by(flips.c.flip_id)
    room = MOST_CHARACTERS
    found: dict[str, list[Row]] = {}
    for table, query in ((jobs, newer), (audit_log, trail), (flips, turns)):
        rows = found[table.name] = []
        if room <= 0:
            continue
        with connection.execute(query.limit(MOST_ROWS), execution_options={"yield_per": 50}) as result:
            for row in result.mappings():  # at least one
                rows.append(dict(row))
                room -= sum(len(value) for value in row.values() if isinstance(value, str))
                if room < 0:
                    break
    if changed := found[jobs.name]:  # with all of the last change: a position can't part what one statement changed
        others = select(jobs).where(jobs.c.changed == changed[-1]["changed"])
        others = others.where(jobs.c.job_id.not_in([row["job_id"] for row in changed]))
        changed += [dict(row) for row in connection.execute(others).mappings()]
    for job in changed:
        job["details_json"] = reports.fitting_details(job["details_json"])
    return {name: [_as_json(row) for row in rows] for name, rows in found.items()}


def position_of(connection: Connection, origin: Origin) -> Position:
    host = origin.supervisor_id
    return Position(
        copied_changes(connection, origin) or 0, _newest_audit(connection, host), _newest_flip(connection, host)
    )


def take_rows(
    connection: Connection,
    hub_id: str,
    origin: Origin,
    found: Mapping[str, Sequence[Row]],
    now: datetime,
    place: Mapping[str, Any] | None = None,
) -> Position:
    """Copy the next rows of a host into the hub's ledger; how far they reach.

    Commands that the host received directly are announced at `place`.
    """
    host = origin.supervisor_id
    trail = reports.decode_rows(audit_log, found, now)
    if trail:
        _check_chain(connection, host, trail)
    trail = [{**row, "command": chain.command_of(row["action"], chain.details_of(row))} for row in trail]
    flipped = reports.decode_rows(flips, found, now)
    known = _newest_flip(connection, host) if flipped else 0
    flipped = [{**row, "supervisor_id": host} for row in flipped if row["flip_id"] > known]
    changed = reports.decode_rows(jobs, found, now)
    for table, some in ((audit_log, trail), (flips, flipped)):
        if some:
            connection.execute(insert(table), some)
    job_rows = [_with_addresses(host, row) for row in changed if can_have_address(host, row["worker_id"])]
    for claim in remote.take_reports(connection, hub_id, job_rows, now, place):
        note_refused_report(connection, hub_id, host, f"{host} reported {claim.reason}", now)
    for row in trail:
        if (row["actor"], row["action"]) == (HUB_ID, REFUSED) and row["task_id"]:
            remote.take_refusal(connection, hub_id, host, row["task_id"], refused_because(row["details_json"]), now)
    position = Position(
        max((int(row["changed"]) for row in changed), default=0),
        trail[-1]["audit_id"] if trail else 0,
        max((row["flip_id"] for row in flipped), default=0),
    )
    copied = copied_changes(connection, origin)
    if copied is None:
        connection.execute(insert(forwarding), {**origin._asdict(), "jobs_changed": position.jobs})
    elif position.jobs > copied:
        own = (forwarding.c.ledger_id == origin.ledger_id, forwarding.c.supervisor_id == host)
        connection.execute(update(forwarding).where(*own).values(jobs_changed=position.jobs))
    return position


def _with_addresses(host: str, job: Row) -> Row:
    own = job["worker_id"]
    named = {**job, "worker_id": str(Address(host, own))}
    details, steps = json.loads(job["details_json"] or "{}"), json.loads(job["progress_json"] or "[]")
    workers = {own, *workers_in(details)}
    if job["error"]:
        named["error"] = with_addresses(job["error"], host, workers)
    if details:
        named["details_json"] = canonical_json(details_with_addresses(details, host, workers))
    if steps:
        renamed = [{**step, "words": with_addresses(step["words"], host, workers)} for step in steps]
        named["progress_json"] = canonical_json(renamed)
    return named


def _check_chain(connection: Connection, host: str, trail: Sequence[Row]) -> None:
    """Raise `DivergedLedger` if these rows don't continue the host's chain."""
    head = chain.newest_row(connection, host)
    number, last = (head.audit_id, head.hash) if head else (0, GENESIS)
    for row in trail:
        if row["supervisor_id"] != host or row["audit_id"] != number + 1 or row["previous_hash"] != last:
            raise DivergedLedger(
                f"The audit trail of {host} doesn't continue the one that the hub has: row {row['audit_id']} doesn't "
                f"follow row {number}.",
                remedy=REPLACED.format(host=host),
            )
        number, last = row["audit_id"], row["hash"]


def _newest_audit(connection: Connection, supervisor_id: str) -> int:
    head = chain.newest_row(connection, supervisor_id)
    return head.audit_id if head else 0


def _newest_flip(connection: Connection, supervisor_id: str) -> int:
    query = select(func.max(flips.c.flip_id)).where(flips.c.supervisor_id == supervisor_id)
    return connection.execute(query).scalar() or 0


def _as_json(row: Row) -> Row:
    return {name: to_text(value) if isinstance(value, datetime) else value for name, value in row.items()}


REFUSAL_INTERVAL = timedelta(minutes=10)
"""The time in which the hub records one refusal for a host, however much it sends."""


def note_refused_report(connection: Connection, hub_id: str, host: str, reason: str, now: datetime) -> bool:
    """Record that the hub refused what a host reports; False if that's on record already. An alert follows from it."""
    lately = (audit_log.c.target_id == host, audit_log.c.created_at > now - REFUSAL_INTERVAL)
    own = (audit_log.c.supervisor_id == hub_id, audit_log.c.actor == HUB_ID, audit_log.c.action == REFUSED)
    if connection.execute(select(audit_log.c.audit_id).where(*lately, *own).limit(1)).first() is not None:
        return False
    details = {"door": "fleet", "error": reason[:WORDS], "count": 1}
    entry = AuditEntry(HUB_ID, REFUSED, host, "failure", target_type="supervisor", details=details)
    record(connection, hub_id, entry, (), now)
    return True


def refused_because(details: str) -> str:
    """The reason in the details of such a row, with the number of messages."""
    try:
        said = json.loads(details)
        count = int(said.get("count", 1))
        words = str(said["error"])[:WORDS].rstrip(".")
    except (ValueError, TypeError, KeyError, AttributeError):
        return "it doesn't say why"
    return words if count == 1 else f"{words} ({count:,} times)"


RECENT = timedelta(hours=1)
"""So long a host has an alert after its last refusal."""

MOST_REFUSALS = 1000


def refusal_readings(connection: Connection, hub_id: str, now: datetime) -> list[TargetReading]:
    """The links of the hosts that have refused messages lately, and of those for which that's over."""
    columns = ("supervisor_id", "target_id", "created_at", "details_json")
    query = select(*(audit_log.c[name] for name in columns))
    lately = (audit_log.c.actor == HUB_ID, audit_log.c.action == REFUSED, audit_log.c.created_at > now - RECENT)
    found: dict[Target, Reading] = {}
    rows = connection.execute(query.where(*lately).order_by(audit_log.c.created_at.desc()).limit(MOST_REFUSALS))
    for owner, about, at, details in rows:
        by_hub = owner == hub_id
        target = Target(LINK, str(about if by_hub else owner))
        newest = found.get(target)
        check = "Check that host" if by_hub else "Check who can publish to the NATS server"
        words = newest.reason if newest else f"{refused_because(details)}. {check}"
        found[target] = Reading(Condition.REFUSED, words, min(at, now))
    for target, known in current_host_conditions(connection, hub_id).items():
        if target.kind == LINK and known.condition is Condition.REFUSED and target not in found:
            found[target] = Reading(Condition.WELL, "no message was refused for an hour", now)
    return [TargetReading(target, reading) for target, reading in found.items()]
