"""Adopting a worker that somebody started by hand: its process is put on record, and is ours to watch and to stop."""

from __future__ import annotations

from pathlib import Path

from supervisor_core.adapters.locks import FileLock, LockedError
from supervisor_core.adapters.processes_claims import Claimant, Profile, obstacle
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

LOCK_SECONDS = 0.5
"""Several may look at once, each for some milliseconds. Who starts or stops the worker has the lock for longer."""


def adopt(state_dir: Path, worker_id: str, profile: Profile, claimant: Claimant) -> FoundWorker | None:
    """Put the process on record as this worker, if nothing of it runs; None where it isn't the worker, or not any more.

    The record has a generation that no process carries: a stop then ends this process with its descendants, and
    never the session of the shell that it was started from.
    """
    facts = _verified(profile, claimant)
    if facts is None:
        return None
    try:
        prepare_folder(state_dir)
    except OSError:  # no supervisor ever worked here, or this user may only look: then it is seen, and not on record
        return _found(_record(state_dir, worker_id, profile, facts), facts)
    try:
        with FileLock(lock_path(state_dir, worker_id), f"adopting {worker_id}").acquire(timeout=LOCK_SECONDS):
            found, facts = find(state_dir, worker_id, locked=True), _verified(profile, claimant)
            if found.presence is not Presence.STOPPED or found.leftovers or facts is None:
                return found  # somebody else was first, or it has just ended
            record = _record(state_dir, worker_id, profile, facts)
            write_record(state_dir, record)
            return _found(record, facts)
    except LockedError:
        return find(state_dir, worker_id)  # whoever starts or stops it now knows better


def _record(state_dir: Path, worker_id: str, profile: Profile, facts: Facts) -> WorkerRecord:
    return WorkerRecord(
        worker_id=worker_id,
        generation=new_generation(state_dir, worker_id),
        state=RUNNING,
        started_at=to_text(platform.started_at(facts)),
        command=profile.command,
        identity=identity_of(facts),
    )


def _found(record: WorkerRecord, facts: Facts) -> FoundWorker:
    return FoundWorker(record.worker_id, Presence.RUNNING, record, life_of(facts), adopted=True)


def _verified(profile: Profile, claimant: Claimant) -> Facts | None:
    """The process, if it is still the one that claimed to be the worker, and nothing speaks against that."""
    before = platform.glance(claimant.pid)
    if before is None or life_of(before).ended or identity_of(before) != claimant.identity:
        return None
    if obstacle(claimant.pid, profile):
        return None
    after = platform.glance(claimant.pid)  # what was compared belongs to this very process
    return after if after is not None and after.start == before.start else None
