"""Commands that wait for an approval, and the votes on them."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the tables."""
    create_table(
        "approvals_t",
        sa.Column("approval_id", sa.String(32), nullable=False),
        sa.Column("task_id", sa.String(128), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("command", sa.String(64), nullable=False),
        sa.Column("target", LongText, nullable=False),
        sa.Column("params_json", LongText, nullable=False),
        sa.Column("workers_json", LongText, nullable=False),
        sa.Column("label", sa.String(100)),
        sa.Column("issuer_id", sa.String(128), nullable=False),
        sa.Column("issuer_name", sa.String(255), nullable=False),
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
        sa.PrimaryKeyConstraint("approval_id", name="pk_approvals_t"),
        sa.UniqueConstraint("task_id", name="uq_approvals_t_task_id"),
        **_MYSQL,
    )
    create_index("ix_approvals_t_state_due_at", "approvals_t", ["state", "due_at"])
    create_table(
        "votes_t",
        sa.Column("approval_id", sa.String(32), nullable=False),
        sa.Column("voter_id", sa.String(128), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("voter_name", sa.String(255), nullable=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("reason", LongText),
        sa.Column("door", sa.String(16), nullable=False),
        sa.Column("voted_at", UtcDateTime, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("approval_id", "voter_id", name="pk_votes_t"),
        sa.UniqueConstraint("approval_id", "place", name="uq_votes_t_approval_id_place"),
        **_MYSQL,
    )
