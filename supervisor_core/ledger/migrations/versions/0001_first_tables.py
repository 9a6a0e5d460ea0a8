"""The tables of the first road: jobs, the audit trail, the outbox, and the flags seen but not yet understood."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, RowId, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make them."""
    create_table(
        "jobs_t",
        sa.Column("job_id", RowId, autoincrement=True, nullable=False),
        sa.Column("task_id", sa.String(128), nullable=False),
        sa.Column("worker_id", sa.String(64), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("handler", sa.String(64), nullable=False),
        sa.Column("params_json", LongText, nullable=False),
        sa.Column("label", sa.String(100)),
        sa.Column("issuer_id", sa.String(128), nullable=False),
        sa.Column("issuer_name", sa.String(255), nullable=False),
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
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs_t"),
        sa.UniqueConstraint("task_id", "worker_id", name="uq_jobs_t_task_id_worker_id"),
        **_MYSQL,
    )
    create_index("ix_jobs_t_waiting", "jobs_t", ["state", "worker_id", "tier", "filed_at", "job_id"])
    create_table(
        "audit_log_t",
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("audit_id", RowId, autoincrement=False, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("actor", sa.String(128), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target_type", sa.String(64), nullable=False),
        sa.Column("target_id", sa.String(64), nullable=False),
        sa.Column("label", sa.String(100)),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("details_json", LongText, nullable=False),
        sa.Column("task_id", sa.String(128)),
        sa.Column("previous_hash", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("supervisor_id", "audit_id", name="pk_audit_log_t"),
        **_MYSQL,
    )
    create_index("ix_audit_log_t_created_at", "audit_log_t", ["created_at"])
    create_index("ix_audit_log_t_target_id_created_at", "audit_log_t", ["target_id", "created_at"])
    create_index("ix_audit_log_t_action_created_at", "audit_log_t", ["action", "created_at"])
    create_index("ix_audit_log_t_task_id", "audit_log_t", ["task_id"])
    create_table(
        "outbox_t",
        sa.Column("outbox_id", RowId, autoincrement=True, nullable=False),
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
        sa.PrimaryKeyConstraint("outbox_id", name="pk_outbox_t"),
        sa.UniqueConstraint("kind", "subject", name="uq_outbox_t_kind_subject"),
        **_MYSQL,
    )
    create_index("ix_outbox_t_state_due_at_outbox_id", "outbox_t", ["state", "due_at", "outbox_id"])
    create_table(
        "sightings_t",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("first_seen_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sightings_t"),
        **_MYSQL,
    )
