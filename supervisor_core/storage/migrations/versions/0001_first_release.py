"""Every table, index and trigger of the first release.

The definitions are a frozen copy of `tables/` as it was released; the column types and the triggers come from their
modules. A later change is a migration of its own, also one of the triggers.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.storage.audit import guard as audit_guard
from supervisor_core.storage.engine import LongText, RowId, UtcDateTime

revision = "0001"
down_revision = None

tables = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, *parts: sa.schema.SchemaItem) -> None:
    options: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    sa.Table(name, tables, *parts, **options)


def upgrade() -> None:
    """Create what isn't there yet: MariaDB commits each statement, so an interrupted upgrade leaves some of it."""
    connection = op.get_bind()
    for table in tables.sorted_tables:
        table.create(connection, checkfirst=True)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            index.create(connection, checkfirst=True)
    audit_guard.install(connection)


_table(
    "jobs_t",
    sa.Column("job_id", RowId, primary_key=True, autoincrement=True),
    sa.Column("task_id", sa.String(128), nullable=False),
    sa.Column("worker_id", sa.String(64), nullable=False),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("handler", sa.String(64), nullable=False),
    sa.Column("params_json", LongText, nullable=False),
    sa.Column("label", sa.String(100)),
    sa.Column("issuer_id", sa.String(128), nullable=False),
    sa.Column("issuer_name", sa.String(255), nullable=False),
    sa.Column("owner_id", sa.String(128)),
    sa.Column("door", sa.String(16), nullable=False),
    sa.Column("approvals_json", LongText, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("tier", sa.Integer, nullable=False),
    sa.Column("filed_at", UtcDateTime, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("claimed_at", UtcDateTime),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("success", sa.Boolean),
    sa.Column("error", LongText),
    sa.Column("details_json", LongText),
    sa.Column("progress_json", LongText),
    sa.Column("batch", sa.Integer),
    sa.Column("changed", RowId, nullable=False),
    sa.UniqueConstraint("task_id", "worker_id"),
    sa.Index(None, "changed"),
    sa.Index("ix_jobs_t_waiting", "state", "worker_id", "tier", "filed_at", "job_id"),
    sa.Index(None, "handler", "finished_at"),
)
_table(
    "audit_log_t",
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("audit_id", RowId, primary_key=True, autoincrement=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("actor", sa.String(128), nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("target_type", sa.String(64), nullable=False),
    sa.Column("target_id", sa.String(64), nullable=False),
    sa.Column("label", sa.String(160)),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("details_json", LongText, nullable=False),
    sa.Column("task_id", sa.String(128)),
    sa.Column("previous_hash", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Index(None, "created_at"),
    sa.Index(None, "target_id", "created_at"),
    sa.Index(None, "action", "created_at"),
    sa.Index(None, "actor", "created_at"),
    sa.Index(None, "task_id"),
)
_table(
    "audit_anchors_t",
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("audit_id", RowId, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("archived_at", UtcDateTime, nullable=False),
)
_table(
    "audit_workers_t",
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("audit_id", RowId, primary_key=True, autoincrement=False),
    sa.Column("worker_id", sa.String(64), primary_key=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Index(None, "worker_id", "created_at"),
)
_table(
    "outbox_t",
    sa.Column("outbox_id", RowId, primary_key=True, autoincrement=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("subject", sa.String(255), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("payload_json", LongText, nullable=False),
    sa.Column("address_json", LongText),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("due_at", UtcDateTime, nullable=False),
    sa.Column("sent_at", UtcDateTime),
    sa.Column("last_error", LongText),
    sa.UniqueConstraint("kind", "subject"),
    sa.Index(None, "state", "due_at", "outbox_id"),
)
_table(
    "sightings_t",
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("first_seen_at", UtcDateTime, nullable=False),
)
_table(
    "workers_t",
    sa.Column("worker_id", sa.String(80), primary_key=True),
    sa.Column("last_heartbeat_at", UtcDateTime),
    sa.Column("pid", sa.Integer),
    sa.Column("hostname", sa.String(255)),
    sa.Column("status", sa.String(64)),
    sa.Column("poll_seconds", sa.Double),
    sa.Column("status_summary", sa.String(255)),
    sa.Index(None, "last_heartbeat_at"),
)
_table(
    "supervisors_t",
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("life", sa.String(32), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("heartbeat_seconds", sa.Double, nullable=False),
    sa.Column("hostname", sa.String(255), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("last_heartbeat_at", UtcDateTime),
    sa.Column("reason", sa.String(255)),
)
_table(
    "teams_t",
    sa.Column("team_id", sa.String(36), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("description", LongText),
    sa.Column("objective", LongText),
    sa.Column("config_json", LongText, nullable=False),
    sa.Column("configured", sa.Boolean, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.UniqueConstraint("supervisor_id", "name"),
)
_table(
    "team_members_t",
    sa.Column("member_id", sa.String(36), primary_key=True),
    sa.Column("team_id", sa.String(36), nullable=False),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("agent_id", sa.String(64), nullable=False),
    sa.Column("active_agent_id", sa.String(64)),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("joined_at", UtcDateTime, nullable=False),
    sa.Column("left_at", UtcDateTime),
    sa.UniqueConstraint("supervisor_id", "active_agent_id"),
    sa.Index(None, "team_id"),
)
_table(
    "rolling_changes_t",
    sa.Column("task_id", sa.String(128), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("target", LongText, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("batches", sa.Integer, nullable=False),
    sa.Column("released", sa.Integer, nullable=False),
    sa.Column("released_at", UtcDateTime, nullable=False),
    sa.Column("healthy_seconds", sa.Integer, nullable=False),
    sa.Column("max_failures", sa.Integer, nullable=False),
    sa.Column("failures_json", LongText, nullable=False),
    sa.Column("accepted", sa.Integer, nullable=False),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("decided_at", UtcDateTime, nullable=False),
    sa.Column("decided_by", sa.String(128), nullable=False),
    sa.Column("decided_name", sa.String(255), nullable=False),
    sa.Column("reason", LongText),
    sa.Index(None, "state"),
)

_table(
    "approvals_t",
    sa.Column("approval_id", sa.String(32), primary_key=True),
    sa.Column("task_id", sa.String(128), nullable=False),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("command", sa.String(64), nullable=False),
    sa.Column("target", LongText, nullable=False),
    sa.Column("params_json", LongText, nullable=False),
    sa.Column("workers_json", LongText, nullable=False),
    sa.Column("label", sa.String(100)),
    sa.Column("issuer_id", sa.String(128), nullable=False),
    sa.Column("issuer_name", sa.String(255), nullable=False),
    sa.Column("owner_id", sa.String(128)),
    sa.Column("door", sa.String(16), nullable=False),
    sa.Column("card_json", LongText),
    sa.Column("preview_json", LongText, nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("votes_needed", sa.Integer, nullable=False),
    sa.Column("self_approval", sa.Boolean, nullable=False),
    sa.Column("requested_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("due_at", UtcDateTime),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("reason", LongText),
    sa.UniqueConstraint("task_id"),
    sa.Index(None, "state", "due_at"),
)
_table(
    "votes_t",
    sa.Column("approval_id", sa.String(32), primary_key=True),
    sa.Column("voter_id", sa.String(128), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("voter_name", sa.String(255), nullable=False),
    sa.Column("choice", sa.String(16), nullable=False),
    sa.Column("reason", LongText),
    sa.Column("door", sa.String(16), nullable=False),
    sa.Column("voted_at", UtcDateTime, nullable=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.UniqueConstraint("approval_id", "place"),
)
_table(
    "bakes_t",
    sa.Column("task_id", sa.String(128), primary_key=True),
    sa.Column("worker_id", sa.String(64), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("asked_for", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime, nullable=False),
    sa.Column("decided_at", UtcDateTime),
    sa.Column("reason", LongText),
    sa.Index(None, "state", "until"),
)
_table(
    "conditions_t",
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("target_type", sa.String(16), primary_key=True),
    sa.Column("target_id", sa.String(64), primary_key=True),
    sa.Column("condition", sa.String(32), nullable=False),
    sa.Column("reason", LongText, nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("flip_id", RowId, nullable=False),
)
_table(
    "flips_t",
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("flip_id", RowId, primary_key=True, autoincrement=False),
    sa.Column("target_type", sa.String(16), nullable=False),
    sa.Column("target_id", sa.String(64), nullable=False),
    sa.Column("old", sa.String(32), nullable=False),
    sa.Column("new", sa.String(32), nullable=False),
    sa.Column("reason", LongText, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Index(None, "target_type", "target_id", "flip_id"),
    sa.Index(None, "at"),
)
_table(
    "alerts_t",
    sa.Column("alert_id", sa.String(32), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("target_type", sa.String(16), nullable=False),
    sa.Column("target_id", sa.String(64), nullable=False),
    sa.Column("condition", sa.String(32), nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", LongText, nullable=False),
    sa.Column("opened_at", UtcDateTime, nullable=False),
    sa.Column("opened_flip", RowId, nullable=False),
    sa.Column("occurrences", sa.Integer, nullable=False),
    sa.Column("held_until", UtcDateTime),
    sa.Column("held_why", sa.String(32)),
    sa.Column("cleared_at", UtcDateTime),
    sa.Column("closed_at", UtcDateTime),
    sa.Column("closed_flip", RowId),
    sa.Column("acknowledged_by", sa.String(128)),
    sa.Column("acknowledged_name", sa.String(255)),
    sa.Column("acknowledged_at", UtcDateTime),
    sa.Column("told", sa.String(32)),
    sa.Column("told_occurrence", sa.Integer, nullable=False),
    sa.Column("told_at", UtcDateTime),
    sa.Column("reminders", sa.Integer, nullable=False),
    sa.Column("decided", sa.String(32), nullable=False),
    sa.Column("due_at", UtcDateTime),
    sa.Column("evidence_json", LongText),
    sa.Column("parent_id", sa.String(32)),
    sa.Column("quieted", sa.String(32)),
    sa.Column("calling_since", UtcDateTime),
    sa.Column("escalated", sa.Integer, nullable=False),
    sa.Index(None, "state", "due_at"),
    sa.Index(None, "target_type", "target_id", "state"),
    sa.Index(None, "opened_at"),
    sa.Index(None, "parent_id"),
)
_table(
    "suppressions_t",
    sa.Column("task_id", sa.String(128), primary_key=True),
    sa.Column("target_type", sa.String(16), primary_key=True),
    sa.Column("target_id", sa.String(64), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("by_id", sa.String(128), nullable=False),
    sa.Column("by_name", sa.String(255), nullable=False),
    sa.Column("reason", LongText, nullable=False),
    sa.Index(None, "until"),
    sa.Index(None, "target_type", "target_id", "until"),
)
_table(
    "schedules_t",
    sa.Column("schedule_id", sa.String(32), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("taken_name", sa.String(64)),
    sa.Column("cron", sa.String(100), nullable=False),
    sa.Column("zone", sa.String(64), nullable=False),
    sa.Column("command", LongText, nullable=False),
    sa.Column("target", LongText, nullable=False),
    sa.Column("owner_id", sa.String(128), nullable=False),
    sa.Column("owner_name", sa.String(255), nullable=False),
    sa.Column("card_json", LongText),
    sa.Column("task_id", sa.String(128), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("added_at", UtcDateTime, nullable=False),
    sa.Column("next_at", UtcDateTime, nullable=False),
    sa.Column("due_at", UtcDateTime),
    sa.Column("waiting_since", UtcDateTime),
    sa.Column("waiting_for", LongText),
    sa.Column("last_at", UtcDateTime),
    sa.Column("last_state", sa.String(16)),
    sa.Column("last_reason", LongText),
    sa.Column("last_task_id", sa.String(128)),
    sa.Column("refused_since", UtcDateTime),
    sa.Column("refusals", sa.Integer, nullable=False),
    sa.Column("removed_at", UtcDateTime),
    sa.Column("removed_by", sa.String(128)),
    sa.Column("removed_name", sa.String(255)),
    sa.Column("removed_task_id", sa.String(128)),
    sa.Column("secret", sa.String(64), nullable=False),
    sa.UniqueConstraint("supervisor_id", "taken_name"),
    sa.UniqueConstraint("task_id"),
    sa.Index(None, "state", "due_at"),
)
_table(
    "envelopes_t",
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("payload_json", LongText, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("received_at", UtcDateTime, nullable=False),
    sa.Column("handled_at", UtcDateTime),
    sa.Column("error", LongText),
    sa.Index(None, "state", "received_at"),
)
_table(
    "forwarding_t",
    sa.Column("ledger_id", sa.String(32), primary_key=True),
    sa.Column("supervisor_id", sa.String(64), primary_key=True),
    sa.Column("jobs_changed", RowId, nullable=False),
    sa.Column("audit_rows", RowId, nullable=False),
    sa.Column("forwarded_at", UtcDateTime),
)
