"""Alerts that Alertmanager sent."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.storage.engine import LongText, UtcDateTime

revision = "0019"
down_revision = "0017"

_OPTIONS: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

tables = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s"})

foreign_alerts = sa.Table(
    "foreign_alerts_t",
    tables,
    sa.Column("supervisor_id", sa.String(64), primary_key=True, autoincrement=False),
    sa.Column("fingerprint", sa.String(64), primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("summary", LongText, nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("worker_id", sa.String(64)),
    sa.Column("firing", sa.Integer, nullable=False),
    sa.Column("begun_at", UtcDateTime, nullable=False),
    sa.Column("heard_at", UtcDateTime, nullable=False),
    sa.Column("ended_at", UtcDateTime),
    **_OPTIONS,
)


def upgrade() -> None:
    """Create the table, unless an interrupted upgrade has."""
    foreign_alerts.create(op.get_bind(), checkfirst=True)
