"""The hosts of a fleet and the invites to join it."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.storage.engine import LongText, UtcDateTime

revision = "0017"
down_revision = "0001"

tables = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, *parts: sa.schema.SchemaItem) -> None:
    options: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    sa.Table(name, tables, *parts, **options)


def upgrade() -> None:
    """Create what isn't there yet: MariaDB commits each statement, so an interrupted upgrade leaves some of it."""
    connection = op.get_bind()
    for table in tables.sorted_tables:
        table.create(connection, checkfirst=True)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            index.create(connection, checkfirst=True)


_table(
    "fleet_hosts_t",
    sa.Column("host_id", sa.String(64), primary_key=True, autoincrement=False),
    sa.Column("public_key", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("joined_at", UtcDateTime, nullable=False),
    sa.Column("revoked_at", UtcDateTime),
    sa.Column("last_seen_at", UtcDateTime),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("workers_json", LongText, nullable=False),
)
_table(
    "fleet_invites_t",
    sa.Column("invite_id", sa.String(32), primary_key=True, autoincrement=False),
    sa.Column("host_id", sa.String(64), nullable=False),
    sa.Column("public_key", sa.String(64), nullable=False),
    sa.Column("created_by", sa.String(128), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("used_at", UtcDateTime),
    sa.Index(None, "expires_at"),
)
