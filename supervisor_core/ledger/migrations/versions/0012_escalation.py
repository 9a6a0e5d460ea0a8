"""What keeps an alert quiet since it was told last, since when people are called, and how far that was escalated."""

import sqlalchemy as sa

from supervisor_core.ledger.columns import UtcDateTime
from supervisor_core.ledger.migrations.making import add_column

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the columns."""
    add_column("alerts_t", sa.Column("quieted", sa.String(32)))
    add_column("alerts_t", sa.Column("calling_since", UtcDateTime))
    add_column("alerts_t", sa.Column("escalated", sa.Integer))
