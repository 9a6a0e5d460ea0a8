"""The tables reference, from the definitions in SQLAlchemy and the enumerations of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from sqlalchemy import Boolean, Column, Integer, String, Table
from sqlalchemy.types import TypeEngine

from supervisor_core.alerts.rules import AlertState
from supervisor_core.alerts.suppression.rows import Hush
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.fleet.members import HostState
from supervisor_core.intake.approvals.rules import ApprovalState, Choice
from supervisor_core.intake.schedules.rules import RunState, ScheduleState
from supervisor_core.jobs.model import JobState, RollingState
from supervisor_core.storage import envelopes, steps
from supervisor_core.storage.engine import LongText, RowId, StoredMoment, UtcDateTime
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.storage.tables import audit_log, metadata, workers
from supervisor_core.workers.conditions import Severity
from supervisor_core.workers.teams import MemberRole
from tests.reference.markdown import code, code_list, fill, sentence, table

VALUES: Mapping[str, Iterable[object]] = {
    "alerts_t.severity": Severity,
    "alerts_t.state": AlertState,
    "approvals_t.state": ApprovalState,
    "bakes_t.state": BakeState,
    "envelopes_t.state": (envelopes.RECEIVED, *envelopes.DEALT_WITH),
    "fleet_hosts_t.state": HostState,
    "foreign_alerts_t.severity": Severity,
    "jobs_t.state": JobState,
    "outbox_t.state": (steps.PENDING, steps.SENT, steps.DROPPED),
    "rolling_changes_t.state": RollingState,
    "schedules_t.last_state": RunState,
    "schedules_t.state": ScheduleState,
    "supervisors_t.status": SupervisorStatus,
    "suppressions_t.kind": Hush,
    "team_members_t.role": MemberRole,
    "votes_t.choice": Choice,
}
"""The values of a column that has only a few."""

TYPES: tuple[tuple[object, str], ...] = (
    (UtcDateTime, "time"),
    (StoredMoment, "time"),
    (RowId, "integer"),
    (LongText, "text"),
    (Boolean, "boolean"),
    (Integer, "integer"),
)


def page() -> str:
    tables = sorted(metadata.tables.values(), key=lambda each: each.name)
    copied = {audit_log.name, workers.name}
    overview = (
        (f"[`{each.name}`](#{each.name})", "yes" if each.name in copied else "", _description(each)) for each in tables
    )
    return fill(
        "tables.md",
        {"overview": table(("table", "shared", "rows"), overview), "tables": "\n\n".join(map(_section, tables))},
    )


def _section(owner: Table) -> str:
    rows = ((code(each.name), _kind(each.type), _null(each), _meaning(owner, each)) for each in owner.columns)
    return f"## {owner.name}\n\n{_description(owner)}\n\n{table(('column', 'type', 'NULL', 'description'), rows)}"


def _description(owner: Table) -> str:
    return str(owner.info["description"])


def _meaning(owner: Table, column: Column[object]) -> str:
    if not column.doc:
        raise ValueError(f"{owner.name}.{column.name} has no description in supervisor_core/storage/tables")
    values = VALUES.get(f"{owner.name}.{column.name}")
    listed = code_list(each.value if isinstance(each, Enum) else each for each in values) if values else ""
    return f"{column.doc} Values: {listed}." if listed else sentence(column.doc)


def _null(column: Column[object]) -> str:
    if column.primary_key:
        return "key"
    return "yes" if column.nullable else ""


def _kind(kind: TypeEngine[object]) -> str:
    for known, name in TYPES:
        if kind is known or (isinstance(known, type) and isinstance(kind, known)) or repr(kind) == repr(known):
            return name
    return f"text, {kind.length}" if isinstance(kind, String) else "number"
