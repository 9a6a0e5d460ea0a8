"""The envelopes that a chat sent, kept before they are acknowledged."""

from typing import Any

import sqlalchemy as sa

from supervisor_core.ledger.columns import LongText, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Make the table."""
    create_table(
        "envelopes_t",
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("payload_json", LongText, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("received_at", UtcDateTime, nullable=False),
        sa.Column("handled_at", UtcDateTime),
        sa.Column("error", LongText),
        sa.PrimaryKeyConstraint("key", name="pk_envelopes_t"),
        **_MYSQL,
    )
    create_index("ix_envelopes_t_state_received_at", "envelopes_t", ["state", "received_at"])
