"""What forwarding goes by: the number of each job's last change, and how far each ledger's rows have been brought."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.ledger.columns import RowId, UtcDateTime
from supervisor_core.ledger.migrations.making import add_column, create_index, create_table

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the table, and number the jobs that are there in the order in which they came."""
    add_column("jobs_t", sa.Column("changed", RowId, nullable=False, server_default="0"))
    op.execute("UPDATE jobs_t SET changed = job_id")
    create_index("ix_jobs_t_changed", "jobs_t", ["changed"])
    create_table(
        "forwarding_t",
        sa.Column("ledger_id", sa.String(32), nullable=False),
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("jobs_changed", RowId, nullable=False),
        sa.Column("audit_rows", RowId, nullable=False),
        sa.Column("forwarded_at", UtcDateTime),
        sa.PrimaryKeyConstraint("ledger_id", "supervisor_id", name="pk_forwarding_t"),
        **_MYSQL,
    )
