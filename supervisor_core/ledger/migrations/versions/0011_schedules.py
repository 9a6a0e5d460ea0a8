"""Schedules; and whose rights count where a command is given by one."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, UtcDateTime
from supervisor_core.ledger.migrations.making import add_column, create_index, create_table

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the table and the columns."""
    create_table(
        "schedules_t",
        sa.Column("schedule_id", sa.String(32), nullable=False),
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
        sa.PrimaryKeyConstraint("schedule_id", name="pk_schedules_t"),
        sa.UniqueConstraint("supervisor_id", "taken_name", name="uq_schedules_t_supervisor_id_taken_name"),
        sa.UniqueConstraint("task_id", name="uq_schedules_t_task_id"),
        **_MYSQL,
    )
    create_index("ix_schedules_t_state_due_at", "schedules_t", ["state", "due_at"])
    for table in ("jobs_t", "approvals_t"):
        add_column(table, sa.Column("owner_id", sa.String(128)))
