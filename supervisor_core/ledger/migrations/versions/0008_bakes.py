"""Workers that are watched after their code was changed, and a way to the newest commands of some kinds."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the table, and the index of the jobs."""
    create_table(
        "bakes_t",
        sa.Column("task_id", sa.String(128), nullable=False),
        sa.Column("worker_id", sa.String(64), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("asked_for", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("until", UtcDateTime, nullable=False),
        sa.Column("decided_at", UtcDateTime),
        sa.Column("reason", LongText),
        sa.PrimaryKeyConstraint("task_id", "worker_id", name="pk_bakes_t"),
        **_MYSQL,
    )
    create_index("ix_bakes_t_state_until", "bakes_t", ["state", "until"])
    create_index("ix_jobs_t_handler_finished_at", "jobs_t", ["handler", "finished_at"])
