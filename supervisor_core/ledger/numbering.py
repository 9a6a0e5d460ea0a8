"""Numbers for jobs that were ended without one, by a program that does not know of them yet.

Migration 0004 gave each job the number of its last change. A daemon that was started before it, and still runs, writes
rows without.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, func, select, update

from supervisor_core.domain.jobs import FINAL
from supervisor_core.ledger.tables import jobs


def any_missing(connection: Connection) -> bool:
    """Whether there is such a job. A look into an index, which costs nothing at each opening."""
    return connection.execute(select(jobs.c.job_id).where(_missing()).limit(1)).first() is not None


def number(connection: Connection) -> int:
    """Number them in the order in which they came, above all others; how many there were."""
    newest = connection.execute(select(func.coalesce(func.max(jobs.c.changed), 0))).scalar_one()
    values = {jobs.c.changed: newest + jobs.c.job_id}
    return connection.execute(update(jobs).where(_missing()).values(values)).rowcount


def _missing() -> ColumnElement[bool]:
    return and_(jobs.c.changed == 0, jobs.c.state.in_(FINAL))
