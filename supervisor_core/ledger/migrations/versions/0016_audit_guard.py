"""The anchors of archived audit trails, and the triggers that refuse to change or remove any other row."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.ledger import audit_guard
from supervisor_core.ledger.columns import RowId, UtcDateTime
from supervisor_core.ledger.migrations.making import create_table

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the table, then the triggers, which ask it."""
    create_table(
        "audit_anchors_t",
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("audit_id", RowId, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("archived_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("supervisor_id", name="pk_audit_anchors_t"),
        **_MYSQL,
    )
    audit_guard.install(op.get_bind())
