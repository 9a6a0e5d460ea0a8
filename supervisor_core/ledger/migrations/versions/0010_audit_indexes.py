"""A way to the rows of one person in the audit trail, however many others there are."""

from supervisor_core.ledger.migrations.making import create_index

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    create_index("ix_audit_log_t_actor_created_at", "audit_log_t", ["actor", "created_at"])
