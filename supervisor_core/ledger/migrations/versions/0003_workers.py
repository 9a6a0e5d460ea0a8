"""What workers and supervisors last said of themselves."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the table."""
    create_table(
        "workers_t",
        sa.Column("worker_id", sa.String(80), nullable=False),
        sa.Column("last_heartbeat_at", UtcDateTime),
        sa.Column("pid", sa.Integer),
        sa.Column("hostname", sa.String(255)),
        sa.Column("status", sa.String(64)),
        sa.Column("poll_seconds", sa.Double),
        sa.Column("status_summary", sa.String(255)),
        sa.PrimaryKeyConstraint("worker_id", name="pk_workers_t"),
        **_MYSQL,
    )
    create_index("ix_workers_t_last_heartbeat_at", "workers_t", ["last_heartbeat_at"])
