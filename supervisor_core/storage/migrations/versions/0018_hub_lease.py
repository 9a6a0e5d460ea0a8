"""The lease of a hub whose ledger is a shared database."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.storage.engine import RowId, UtcDateTime

revision = "0018"
down_revision = "0017"

_OPTIONS: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

tables = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s"})

leases = sa.Table(
    "leases_t",
    tables,
    sa.Column("supervisor_id", sa.String(64), primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("machine", sa.String(255), nullable=False),
    sa.Column("number", RowId, nullable=False),
    sa.Column("since", UtcDateTime),
    sa.Column("until", UtcDateTime),
    sa.Column("writes", RowId, nullable=False),
    **_OPTIONS,
)


def upgrade() -> None:
    """Create the table, unless an interrupted upgrade has."""
    leases.create(op.get_bind(), checkfirst=True)
