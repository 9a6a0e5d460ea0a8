"""A way to the rows of the audit trail by the workers that they affected beside the one that they name."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from supervisor_core.domain.affected import siblings_in
from supervisor_core.domain.texts import is_plain
from supervisor_core.ledger.columns import LongText, RowId, StoredMoment, UtcDateTime
from supervisor_core.ledger.migrations.making import create_index, create_table

revision = "0015"
down_revision = "0013"
branch_labels = None
depends_on = None

_MYSQL: Any = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

_CODE = ("UPDATE_CODE", "UPDATE_CODE_DEPS", "ROLLBACK_CODE", "UNDO_CODE")


def _table(name: str, **columns: Any) -> sa.TableClause:  # noqa: ANN401 (types of columns)
    return sa.table(name, *(sa.column(column, kind) for column, kind in columns.items()))


_KEY: Any = {"supervisor_id": sa.String, "audit_id": RowId}
_STORED: Any = {**_KEY, "created_at": StoredMoment}
_trail = _table(
    "audit_log_t", **_STORED, task_id=sa.String, action=sa.String, target_id=sa.String, details_json=LongText
)
_jobs = _table("jobs_t", task_id=sa.String, worker_id=sa.String)
_workers = _table("audit_workers_t", **_KEY, created_at=UtcDateTime, worker_id=sa.String, role=sa.String)


def upgrade() -> None:
    """Make the table, with what the trail says of older rows."""
    create_table(
        "audit_workers_t",
        sa.Column("supervisor_id", sa.String(64), nullable=False),
        sa.Column("audit_id", RowId, autoincrement=False, nullable=False),
        sa.Column("worker_id", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("supervisor_id", "audit_id", "worker_id", name="pk_audit_workers_t"),
        **_MYSQL,
    )
    create_index("ix_audit_workers_t_worker_id_created_at", "audit_workers_t", ["worker_id", "created_at"])
    connection = op.get_bind()
    known = {tuple(row) for row in connection.execute(sa.select(_workers.c.supervisor_id, _workers.c.audit_id))}
    for row in connection.execute(sa.select(_trail).where(_trail.c.action.in_(_CODE))).mappings().all():
        if not _is_whole(row) or (row["supervisor_id"], row["audit_id"]) in known:
            continue
        query = sa.select(_jobs.c.worker_id).where(_jobs.c.task_id == row["task_id"])
        own = set(connection.execute(query).scalars())
        key = {name: row[name] for name in ("supervisor_id", "audit_id", "created_at")}
        rows = [{**key, "worker_id": each, "role": role} for each, role in _affected(row) if each not in own]
        if rows:
            connection.execute(sa.insert(_workers), rows)


def _is_whole(row: sa.RowMapping) -> bool:
    """Whether the row can be found by a worker at all. A damaged cell must not keep the ledger from its upgrade."""
    texts = [row["supervisor_id"], row["target_id"], row["task_id"] or "", row["details_json"]]
    readable = all(isinstance(each, str) and is_plain(each) for each in texts)
    return readable and type(row["audit_id"]) is int and isinstance(row["created_at"], datetime)


def _affected(row: sa.RowMapping) -> Iterator[tuple[str, str]]:
    """Nobody where the details are damaged: `audit verify` says that."""
    try:
        result = json.loads(row["details_json"])["result"]
        yield from siblings_in(str(row["target_id"]), result).items()
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return
