"""All tables of the first release.

Until then they are those of `tables/`; at the release this becomes a copy of them, and each later change a migration.
"""

from alembic import op

from supervisor_core.storage.tables import metadata

revision = "0022"
down_revision = None


def upgrade() -> None:
    """Create them."""
    metadata.create_all(op.get_bind())
