"""The holder of a command id: the door that uses it already, so that no other door files a command under it."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select

from supervisor_core.ledger.tables import approvals, jobs, schedules, suppressions


def holder(connection: Connection, task_id: str, door: str) -> str:
    """What holds this id beside the jobs of this door, in words; empty where nothing does."""
    if connection.execute(select(approvals.c.approval_id).where(approvals.c.task_id == task_id)).first():
        return "an approval"
    job = connection.execute(select(jobs.c.door).where(jobs.c.task_id == task_id, jobs.c.door != door).limit(1)).first()
    if job is not None:
        return f"a command from {job.door}"
    columns = (schedules.c.task_id, schedules.c.removed_task_id, schedules.c.last_task_id)
    if connection.execute(select(schedules.c.schedule_id).where(or_(*(each == task_id for each in columns)))).first():
        return "a schedule"
    if connection.execute(select(suppressions.c.task_id).where(suppressions.c.task_id == task_id)).first():
        return "a mute"
    return ""
