"""The tables, defined once for SQLite, MariaDB and PostgreSQL. Migrations make them; a test holds the two together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Boolean, Column, Double, Index, Integer, MetaData, String, Table, UniqueConstraint, text
from sqlalchemy.schema import SchemaItem

from supervisor_core.storage.engine import LongText, RowId, StoredMoment, UtcDateTime

WORKER_ID = 64
TASK_ID = 128

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Ids that differ only in case are different ids, on MariaDB too.
_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(name, metadata, *parts, **_MYSQL)


def _required(kind: Any, *names: str) -> Iterator[Column[Any]]:  # noqa: ANN401 (a type's class or instance)
    return (Column(name, kind, nullable=False) for name in names)


def _optional(kind: Any, *names: str) -> Iterator[Column[Any]]:  # noqa: ANN401
    return (Column(name, kind) for name in names)


# Read through a table of its own, because MariaDB won't read the table that it writes.
_NEXT_CHANGE = text("(SELECT n FROM (SELECT COALESCE(MAX(changed), 0) + 1 AS n FROM jobs_t) AS newest)")

jobs = _table(
    "jobs_t",
    Column("job_id", RowId, primary_key=True, autoincrement=True),
    Column("task_id", String(TASK_ID), nullable=False),
    Column("worker_id", String(WORKER_ID), nullable=False),
    *_required(String(64), "supervisor_id", "handler"),
    Column("params_json", LongText, nullable=False),
    Column("label", String(100)),
    Column("issuer_id", String(128), nullable=False),
    Column("issuer_name", String(255), nullable=False),
    # Whose rights count, where it is not the issuer: the owner of a schedule.
    Column("owner_id", String(128)),
    Column("door", String(16), nullable=False),
    Column("approvals_json", LongText, nullable=False),
    Column("state", String(16), nullable=False),
    Column("tier", Integer, nullable=False),
    *_required(UtcDateTime, "filed_at", "created_at"),
    *_optional(UtcDateTime, "claimed_at", "started_at", "finished_at"),
    Column("success", Boolean),
    *_optional(LongText, "error", "details_json", "progress_json"),
    # Rises with every insert and update in one ledger, in the order of the commits: what was changed after a certain
    # change is what lies above its number. Set by itself, so that nobody can forget it.
    Column("changed", RowId, nullable=False, default=_NEXT_CHANGE, onupdate=_NEXT_CHANGE),
    UniqueConstraint("task_id", "worker_id"),
    Index(None, "changed"),
)
Index("ix_jobs_t_waiting", jobs.c.state, jobs.c.worker_id, jobs.c.tier, jobs.c.filed_at, jobs.c.job_id)
Index(None, jobs.c.handler, jobs.c.finished_at)

audit_log = _table(
    "audit_log_t",
    Column("supervisor_id", String(64), primary_key=True),
    Column("audit_id", RowId, primary_key=True, autoincrement=False),
    Column("outcome", String(16), nullable=False),
    Column("actor", String(128), nullable=False),
    *_required(String(64), "action", "target_type", "target_id"),
    Column("label", String(100)),
    Column("created_at", StoredMoment, nullable=False),
    Column("details_json", LongText, nullable=False),
    Column("task_id", String(TASK_ID)),
    *_required(String(64), "previous_hash", "hash"),
    Index(None, "created_at"),
    Index(None, "target_id", "created_at"),
    Index(None, "action", "created_at"),
    Index(None, "actor", "created_at"),
    Index(None, "task_id"),
)

audit_anchors = _table(
    "audit_anchors_t",
    Column("supervisor_id", String(64), primary_key=True),
    # The last row that was archived: the chain goes on behind it.
    Column("audit_id", RowId, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("archived_at", UtcDateTime, nullable=False),
)

audit_workers = _table(
    "audit_workers_t",
    Column("supervisor_id", String(64), primary_key=True),
    Column("audit_id", RowId, primary_key=True, autoincrement=False),
    Column("worker_id", String(WORKER_ID), primary_key=True),
    Column("role", String(16), nullable=False),
    # Of its row, so that the rows of one worker are found in their order.
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "worker_id", "created_at"),
)

outbox = _table(
    "outbox_t",
    Column("outbox_id", RowId, primary_key=True, autoincrement=True),
    Column("kind", String(32), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("state", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("payload_json", LongText, nullable=False),
    Column("address_json", LongText),
    Column("attempts", Integer, nullable=False),
    *_required(UtcDateTime, "created_at", "due_at"),
    Column("sent_at", UtcDateTime),
    Column("last_error", LongText),
    UniqueConstraint("kind", "subject"),
    Index(None, "state", "due_at", "outbox_id"),
)

sightings = _table(
    "sightings_t",
    Column("name", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("first_seen_at", UtcDateTime, nullable=False),
)

STATUS_SUMMARY = 255
WORKER_ROW = 80
"""A worker's id, or `supervisor_` and a worker's id: the supervisor's own row never overwrites the worker's."""

workers = _table(
    "workers_t",
    Column("worker_id", String(WORKER_ROW), primary_key=True),
    Column("last_heartbeat_at", UtcDateTime),
    Column("pid", Integer),
    Column("hostname", String(255)),
    Column("status", String(64)),
    Column("poll_seconds", Double),
    Column("status_summary", String(STATUS_SUMMARY)),
    Index(None, "last_heartbeat_at"),
)

SUPERVISOR_ID = 64
REASON = 255
TEAM_NAME = 255

supervisors = _table(
    "supervisors_t",
    Column("supervisor_id", String(SUPERVISOR_ID), primary_key=True),
    Column("life", String(32), nullable=False),
    Column("status", String(16), nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("heartbeat_seconds", Double, nullable=False),
    Column("hostname", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(64), nullable=False),
    *_required(UtcDateTime, "started_at", "changed_at"),
    Column("last_heartbeat_at", UtcDateTime),
    Column("reason", String(REASON)),
)

teams = _table(
    "teams_t",
    Column("team_id", String(36), primary_key=True),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("name", String(TEAM_NAME), nullable=False),
    *_optional(LongText, "description", "objective"),
    Column("config_json", LongText, nullable=False),
    Column("configured", Boolean, nullable=False),
    *_required(UtcDateTime, "created_at", "updated_at"),
    Column("ended_at", UtcDateTime),
    UniqueConstraint("supervisor_id", "name"),
)

team_members = _table(
    "team_members_t",
    Column("member_id", String(36), primary_key=True),
    Column("team_id", String(36), nullable=False),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("agent_id", String(WORKER_ID), nullable=False),
    # The agent's id for as long as it is in the team, then nothing, which is unlike any other nothing. So each agent of
    # a supervisor is in one team at a time, on MariaDB too, which has no unique index on some of the rows alone.
    Column("active_agent_id", String(WORKER_ID)),
    Column("role", String(16), nullable=False),
    Column("joined_at", UtcDateTime, nullable=False),
    Column("left_at", UtcDateTime),
    UniqueConstraint("supervisor_id", "active_agent_id"),
    Index(None, "team_id"),
)

approvals = _table(
    "approvals_t",
    Column("approval_id", String(32), primary_key=True),
    Column("task_id", String(TASK_ID), nullable=False),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("command", String(64), nullable=False),
    *_required(LongText, "target", "params_json", "workers_json"),
    Column("label", String(100)),
    Column("issuer_id", String(128), nullable=False),
    Column("issuer_name", String(255), nullable=False),
    Column("owner_id", String(128)),
    Column("door", String(16), nullable=False),
    Column("card_json", LongText),
    Column("preview_json", LongText, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("votes_needed", Integer, nullable=False),
    Column("self_approval", Boolean, nullable=False),
    *_required(UtcDateTime, "requested_at", "expires_at"),
    # When somebody must look at it next; nothing where only the end of its jobs moves it, or where it is over.
    *_optional(UtcDateTime, "due_at", "decided_at", "finished_at"),
    Column("reason", LongText),
    UniqueConstraint("task_id"),
    Index(None, "state", "due_at"),
)

votes = _table(
    "votes_t",
    Column("approval_id", String(32), primary_key=True),
    Column("voter_id", String(128), primary_key=True),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("voter_name", String(255), nullable=False),
    Column("choice", String(16), nullable=False),
    Column("reason", LongText),
    Column("door", String(16), nullable=False),
    Column("voted_at", UtcDateTime, nullable=False),
    # In the order in which they were given: two may come in the same microsecond.
    Column("place", Integer, nullable=False),
    UniqueConstraint("approval_id", "place"),
)

bakes = _table(
    "bakes_t",
    Column("task_id", String(TASK_ID), primary_key=True),
    Column("worker_id", String(WORKER_ID), primary_key=True),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("asked_for", String(WORKER_ID), nullable=False),
    Column("state", String(16), nullable=False),
    *_required(UtcDateTime, "since", "until"),
    Column("decided_at", UtcDateTime),
    Column("reason", LongText),
    Index(None, "state", "until"),
)

CONDITION = 32
TARGET_TYPE, TARGET_ID = 16, 64

conditions = _table(
    "conditions_t",
    Column("supervisor_id", String(SUPERVISOR_ID), primary_key=True),
    Column("target_type", String(TARGET_TYPE), primary_key=True),
    Column("target_id", String(TARGET_ID), primary_key=True),
    Column("condition", String(CONDITION), nullable=False),
    Column("reason", LongText, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    # The flip that led here. Whoever knows another one has lost the race.
    Column("flip_id", RowId, nullable=False),
)

flips = _table(
    "flips_t",
    Column("supervisor_id", String(SUPERVISOR_ID), primary_key=True),
    Column("flip_id", RowId, primary_key=True, autoincrement=False),
    Column("target_type", String(TARGET_TYPE), nullable=False),
    Column("target_id", String(TARGET_ID), nullable=False),
    *_required(String(CONDITION), "old", "new"),
    Column("reason", LongText, nullable=False),
    *_required(UtcDateTime, "at", "seen_at"),
    Index(None, "target_type", "target_id", "flip_id"),
    Index(None, "at"),
)

alerts = _table(
    "alerts_t",
    Column("alert_id", String(32), primary_key=True),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("target_type", String(TARGET_TYPE), nullable=False),
    Column("target_id", String(TARGET_ID), nullable=False),
    Column("condition", String(CONDITION), nullable=False),
    *_required(String(16), "severity", "state"),
    Column("reason", LongText, nullable=False),
    Column("opened_at", UtcDateTime, nullable=False),
    Column("opened_flip", RowId, nullable=False),
    Column("occurrences", Integer, nullable=False),
    # Until when it is not held against its target, and why.
    Column("held_until", UtcDateTime),
    Column("held_why", String(32)),
    # Since when its condition does not hold any more; nothing while it does.
    *_optional(UtcDateTime, "cleared_at", "closed_at"),
    Column("closed_flip", RowId),
    Column("acknowledged_by", String(128)),
    Column("acknowledged_name", String(255)),
    Column("acknowledged_at", UtcDateTime),
    # What people have heard last: the condition, which occurrence of it, when, and how many reminders since.
    Column("told", String(CONDITION)),
    Column("told_occurrence", Integer, nullable=False),
    Column("told_at", UtcDateTime),
    Column("reminders", Integer, nullable=False),
    # What was decided last, by name, and when to decide again although nothing was observed.
    Column("decided", String(32), nullable=False),
    Column("due_at", UtcDateTime),
    # What there was to see when it began: the last lines of its log.
    Column("evidence_json", LongText),
    # The alert into which this one was folded.
    Column("parent_id", String(32)),
    # What keeps it quiet since it was told last; since when people are called, and so many steps of the escalation.
    Column("quieted", String(32)),
    Column("calling_since", UtcDateTime),
    Column("escalated", Integer, nullable=False),
    Index(None, "state", "due_at"),
    Index(None, "target_type", "target_id", "state"),
    Index(None, "opened_at"),
    Index(None, "parent_id"),
)

suppressions = _table(
    "suppressions_t",
    # Who asked for it, or what it follows from: the same thing asked for twice is one row.
    Column("task_id", String(TASK_ID), primary_key=True),
    Column("target_type", String(TARGET_TYPE), primary_key=True),
    Column("target_id", String(TARGET_ID), primary_key=True),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("kind", String(16), nullable=False),
    *_required(UtcDateTime, "since", "until"),
    Column("ended_at", UtcDateTime),
    Column("by_id", String(128), nullable=False),
    Column("by_name", String(255), nullable=False),
    Column("reason", LongText, nullable=False),
    Index(None, "until"),
    Index(None, "target_type", "target_id", "until"),
)

schedules = _table(
    "schedules_t",
    Column("schedule_id", String(32), primary_key=True),
    Column("supervisor_id", String(SUPERVISOR_ID), nullable=False),
    Column("name", String(64), nullable=False),
    # The name in lower case for as long as it is taken, then nothing, which is unlike any other nothing.
    Column("taken_name", String(64)),
    Column("cron", String(100), nullable=False),
    Column("zone", String(64), nullable=False),
    Column("command", LongText, nullable=False),
    # Which word of it is the target: one that is none any more must not be taken for the label of another worker.
    Column("target", LongText, nullable=False),
    Column("owner_id", String(128), nullable=False),
    Column("owner_name", String(255), nullable=False),
    Column("card_json", LongText),
    Column("task_id", String(TASK_ID), nullable=False),
    Column("state", String(16), nullable=False),
    Column("added_at", UtcDateTime, nullable=False),
    # The run that comes next, and when somebody must look at it: later, while nobody can be asked about it.
    Column("next_at", UtcDateTime, nullable=False),
    *_optional(UtcDateTime, "due_at", "waiting_since"),
    Column("waiting_for", LongText),
    Column("last_at", UtcDateTime),
    Column("last_state", String(16)),
    Column("last_reason", LongText),
    Column("last_task_id", String(TASK_ID)),
    Column("refused_since", UtcDateTime),
    Column("refusals", Integer, nullable=False),
    Column("removed_at", UtcDateTime),
    Column("removed_by", String(128)),
    Column("removed_name", String(255)),
    Column("removed_task_id", String(TASK_ID)),
    # The key of its commands' ids: 32 random bytes in hex, told to nobody.
    Column("secret", String(64), nullable=False),
    UniqueConstraint("supervisor_id", "taken_name"),
    UniqueConstraint("task_id"),
    Index(None, "state", "due_at"),
)

envelopes = _table(
    "envelopes_t",
    Column("key", String(255), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("payload_json", LongText, nullable=False),
    Column("state", String(16), nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
    Column("handled_at", UtcDateTime),
    Column("error", LongText),
    Index(None, "state", "received_at"),
)

forwarding = _table(
    "forwarding_t",
    Column("ledger_id", String(32), primary_key=True),
    Column("supervisor_id", String(64), primary_key=True),
    *_required(RowId, "jobs_changed", "audit_rows"),
    Column("forwarded_at", UtcDateTime),
)
