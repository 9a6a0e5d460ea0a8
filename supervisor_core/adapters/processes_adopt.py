"""Adopting a worker that somebody started by hand: its heartbeat names a process, and that must be the worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters.locks import FileLock, LockedError
from supervisor_core.adapters.processes_find import FoundWorker, Presence, find
from supervisor_core.adapters.processes_identity import identity_of, life_of, platform
from supervisor_core.adapters.processes_records import (
    RUNNING,
    WorkerRecord,
    lock_path,
    new_generation,
    prepare_folder,
    write_record,
)
from supervisor_core.adapters.processes_values import Facts
from supervisor_core.domain.times import to_text

ROUNDING = timedelta(seconds=1)
"""A beat may lie so far before the start of its process: many programs write whole seconds."""

LOCK_SECONDS = 0.5
"""Several may look at once, each for some milliseconds. Who starts or stops the worker has the lock for longer."""


class Claim(NamedTuple):
    """A process that is said to be a worker, the command that it must have, and when it must have been there."""

    pid: int
    command: tuple[str, ...]
    beat_at: datetime


def adopt(state_dir: Path, worker_id: str, claim: Claim) -> FoundWorker | None:
    """Put the process on record as this worker, if nothing of it runs; None where the claim is not true.

    The record has a generation that no process carries: a stop then ends this process with its descendants, and
    never the session of the shell that it was started from.
    """
    facts = _holds(claim)
    if facts is None:  # nearly always: the last beat of a worker that has ended
        return None
    try:
        prepare_folder(state_dir)
    except OSError:  # no supervisor ever worked here, or this user may only look: then it is seen, and not on record
        return _found(_record(state_dir, worker_id, claim, facts), facts)
    try:
        with FileLock(lock_path(state_dir, worker_id), f"adopting {worker_id}").acquire(timeout=LOCK_SECONDS):
            found, facts = find(state_dir, worker_id, locked=True), _holds(claim)
            if found.presence is not Presence.STOPPED or found.leftovers or facts is None:
                return found  # somebody else was first, or it has just ended
            record = _record(state_dir, worker_id, claim, facts)
            write_record(state_dir, record)
            return _found(record, facts)
    except LockedError:
        return find(state_dir, worker_id)  # whoever starts or stops it now knows better


def _record(state_dir: Path, worker_id: str, claim: Claim, facts: Facts) -> WorkerRecord:
    return WorkerRecord(
        worker_id=worker_id,
        generation=new_generation(state_dir, worker_id),
        state=RUNNING,
        started_at=to_text(platform.started_at(facts)),
        command=claim.command,
        identity=identity_of(facts),
    )


def _found(record: WorkerRecord, facts: Facts) -> FoundWorker:
    return FoundWorker(record.worker_id, Presence.RUNNING, record, life_of(facts), adopted=True)


def _holds(claim: Claim) -> Facts | None:
    """The process, if it lives, has exactly this command, and began before the beat."""
    before = platform.glance(claim.pid)
    if before is None or life_of(before).ended or platform.is_thread(claim.pid):
        return None
    if platform.arguments(claim.pid) != claim.command or platform.started_at(before) > claim.beat_at + ROUNDING:
        return None
    after = platform.glance(claim.pid)  # the arguments were those of this very process
    return after if after is not None and after.start == before.start else None
