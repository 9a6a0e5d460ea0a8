"""The newest commands, each as one value, however many workers it was for and however long the history is."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from supervisor_core.domain.command import Issuer
from supervisor_core.domain.jobs import FINAL, JobState
from supervisor_core.domain.recent import Recent
from supervisor_core.ledger.tables import jobs

NAMED = 3  # workers of a command


def recent(connection: Connection, most: int) -> list[Recent]:
    """The newest commands, newest first. A few looks into indexes: nothing here grows with the history."""
    found: list[str] = []
    while len(found) < most:
        newest = select(jobs.c.task_id).where(jobs.c.task_id.not_in(found)).order_by(jobs.c.job_id.desc()).limit(1)
        task_id = connection.execute(newest).scalar()
        if task_id is None:
            break
        found.append(task_id)
    return [_of_task(connection, task_id) for task_id in found]


def _of_task(connection: Connection, task_id: str) -> Recent:
    mine = jobs.c.task_id == task_id
    columns = (jobs.c.handler, jobs.c.issuer_id, jobs.c.issuer_name, jobs.c.label, jobs.c.filed_at, jobs.c.worker_id)
    first = connection.execute(select(*columns).where(mine).order_by(jobs.c.job_id).limit(NAMED)).all()
    counted = select(jobs.c.state, jobs.c.success, func.count().label("number")).where(mine)
    rows = connection.execute(counted.group_by(jobs.c.state, jobs.c.success)).all()
    ended = [row for row in rows if JobState(row.state) in FINAL]
    return Recent(
        task_id=task_id,
        handler=first[0].handler,
        issuer=Issuer(first[0].issuer_id, first[0].issuer_name),
        label=first[0].label,
        filed_at=first[0].filed_at,
        workers=tuple(row.worker_id for row in first),
        count=sum(row.number for row in rows),
        ended=sum(row.number for row in ended),
        failed=sum(row.number for row in ended if not row.success),
        interrupted=sum(row.number for row in ended if JobState(row.state) is JobState.INTERRUPTED),
    )
