"""The index of commands for audit rows from before it, also for those that were copied from other hosts."""

import sqlalchemy as sa
from alembic import op

from supervisor_core.storage.audit.cells import has_number
from supervisor_core.storage.audit.names import COMMAND, commands_of
from supervisor_core.storage.audit.trail import TELLING
from supervisor_core.storage.engine import UtcDateTime
from supervisor_core.storage.replication_progress import chains
from supervisor_core.storage.tables import audit_log

revision = "0020"
down_revision = "0019"

AT_ONCE = 5_000
"""Rows of a chain for which one statement looks: a shared database limits the time of each."""

index = sa.table(
    "audit_workers_t",
    sa.column("supervisor_id", sa.String),
    sa.column("audit_id", sa.BigInteger),
    sa.column("worker_id", sa.String),
    sa.column("role", sa.String),
    sa.column("created_at", UtcDateTime),
)
row = audit_log.c


def upgrade() -> None:
    """Add the missing entries: a development version had the index, but not for older rows."""
    connection = op.get_bind()
    for chain in list(chains(connection)):
        mine = sa.and_(row.supervisor_id == chain, *has_number(connection.dialect.name))
        last: int | None = 0
        while last is not None:
            rest = sa.and_(mine, row.audit_id > last)
            last = connection.execute(
                sa.select(row.audit_id).where(rest).order_by(row.audit_id).offset(AT_ONCE - 1).limit(1)
            ).scalar()
            _add(connection, rest if last is None else sa.and_(rest, row.audit_id <= last))


def _add(connection: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    """Index these rows, except those that have an entry."""
    same = (index.c.supervisor_id == row.supervisor_id, index.c.audit_id == row.audit_id)
    indexed = sa.select(index.c.audit_id).where(*same, index.c.role == COMMAND).exists()
    columns = (row.supervisor_id, row.audit_id, row.action, row.created_at, row.details_json)
    query = sa.select(*columns).where(which, row.action.in_(TELLING), ~indexed)
    entries = commands_of([dict(each) for each in connection.execute(query).mappings()])
    if entries:
        connection.execute(sa.insert(index), entries)
