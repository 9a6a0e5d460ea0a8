"""A wider audit label: a name of 50 characters and a label of 100, uncut."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Widen the column. SQLite doesn't enforce a length."""
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column(
            "audit_log_t", "label", type_=sa.String(160), existing_type=sa.String(100), existing_nullable=True
        )
