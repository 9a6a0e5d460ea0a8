"""Finding a worker again: by its record where that holds, else by the generation in the environment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters.open_folder import UnreadableError
from supervisor_core.adapters.processes_identity import platform, state
from supervisor_core.adapters.processes_records import (
    STARTING,
    STOP,
    STUCK,
    WorkerRecord,
    lock_path,
    place_of,
    read_record,
    write_record,
)
from supervisor_core.adapters.processes_values import Facts, Life, Member, ProcessIdentity


class Presence(StrEnum):
    """Whether a worker runs, for whoever wants to start or stop it."""

    RUNNING = "running"
    STOPPED = "stopped"
    UNVERIFIABLE = "unverifiable"
    """Nobody can tell. Neither start nor signal it; a person must look."""


class FoundWorker(NamedTuple):
    """What a look for a worker found. `leftovers` are processes of a launch whose leader is gone."""

    worker_id: str
    presence: Presence
    record: WorkerRecord | None = None
    life: Life = Life.GONE
    leftovers: tuple[Member, ...] = ()
    adopted: bool = False
    """Found by its generation, and not by its record: whoever started it did not live to write that."""
    reason: str = ""
    others: tuple[int, ...] = ()
    """The processes that claim to be it, where that is the reason why nobody can tell."""

    def __bool__(self) -> bool:
        """Whether the worker runs."""
        return self.presence is Presence.RUNNING

    @property
    def stuck(self) -> bool:
        """Whether something of it lives that a stop could not end."""
        lives = self.presence is Presence.RUNNING or bool(self.leftovers)
        return lives and self.record is not None and self.record.state == STUCK

    @property
    def ordered(self) -> bool:
        """Whether the supervisor itself ends this launch or tries it out, so that its end is no trouble."""
        return self.record is not None and self.record.order is not None

    @property
    def stopping(self) -> bool:
        """Whether it runs and the supervisor has ordered its stop: it may end at any moment."""
        order = self.record.order if self.record and self.presence is Presence.RUNNING else None
        return order is not None and order.what == STOP

    @property
    def identity(self) -> ProcessIdentity | None:
        """The process of a running worker."""
        return self.record.identity if self.record and self.presence is Presence.RUNNING else None


def find(state_dir: Path, worker_id: str, *, locked: bool = False) -> FoundWorker:
    """Look for a worker. A process found without its record is adopted, and its record completed.

    `locked` says that the caller holds the worker's lock; else a record is completed only where that is free,
    so that a slow reader never writes over the record of a newer launch.
    """
    try:
        record = read_record(state_dir, worker_id)
    except (UnreadableError, PermissionError) as error:
        return FoundWorker(
            worker_id,
            Presence.UNVERIFIABLE,
            life=Life.UNVERIFIABLE,
            reason=f"{error} Look for its process, end it if there is one, and delete the file.",
        )
    if record is not None and record.identity is not None:
        life = state(record.identity)
        if life.running:
            return FoundWorker(worker_id, Presence.RUNNING, _followed_up(state_dir, record, locked=locked), life)
        if life is Life.UNVERIFIABLE:
            reason = f"The system does not tell whether process {record.identity.pid} is still this worker."
            return FoundWorker(worker_id, Presence.UNVERIFIABLE, record, life, reason=reason)
        return _leftovers(worker_id, record)
    return _search(state_dir, worker_id, record, locked=locked)


def _leftovers(worker_id: str, record: WorkerRecord) -> FoundWorker:
    from supervisor_core.adapters.processes_set import process_set

    left = process_set(record.generation, record.identity)
    return FoundWorker(worker_id, Presence.STOPPED, record, leftovers=left)


def _search(state_dir: Path, worker_id: str, record: WorkerRecord | None, *, locked: bool) -> FoundWorker:
    """Look for the process of a launch whose record names none, or was lost altogether."""
    from supervisor_core.adapters.processes_identity import identity_of, life_of, platform
    from supervisor_core.adapters.processes_set import carriers

    there = carriers(record.generation if record else place_of(state_dir, worker_id))
    if record is None:
        # Anybody can work out how our launches of a worker begin; only the rest of a launch on record is a secret.
        there = tuple((token, found) for token, found in there if platform.owners(found.pid) == platform.own_owners())
    if not there:
        return FoundWorker(worker_id, Presence.STOPPED, record)
    leader = _leader(there)
    if leader is None:
        return _leftovers(worker_id, record or WorkerRecord(worker_id, there[0][0], STARTING))
    if record is None:
        record = WorkerRecord(worker_id, next(token for token, found in there if found == leader), STARTING)
    adopted = record.running_as(identity_of(leader))
    _complete(state_dir, adopted, locked=locked)
    return FoundWorker(worker_id, Presence.RUNNING, adopted, life_of(leader), adopted=True)


def _leader(there: tuple[tuple[str, Facts], ...]) -> Facts | None:
    """The process that was launched: it leads its session, and its parent is none of its own launch.

    A helper that made itself a daemon looks the same, but is younger.
    """
    pids = {found.pid for _, found in there}
    leaders = [found for _, found in there if found.session == found.pid and found.ppid not in pids]
    return min(leaders, key=lambda found: (found.start, found.pid), default=None)


def _followed_up(state_dir: Path, record: WorkerRecord, *, locked: bool) -> WorkerRecord:
    """The record of a running worker. One that has outlived what was ordered ends by its own doing from now on; one
    that is stuck in its stop doesn't."""
    order = record.order
    if order is None or record.state == STUCK or platform.since_boot() <= order.until:
        return record
    freed = record._replace(order=None)
    _complete(state_dir, freed, instead_of=record, locked=locked)
    return freed


def _complete(state_dir: Path, record: WorkerRecord, *, instead_of: WorkerRecord | None = None, locked: bool) -> None:
    from supervisor_core.adapters.locks import FileLock, LockedError
    from supervisor_core.adapters.processes_records import prepare_folder

    if locked:
        write_record(state_dir, record)
        return
    prepare_folder(state_dir)
    try:
        with FileLock(lock_path(state_dir, record.worker_id), f"adopting {record.worker_id}"):
            current = read_record(state_dir, record.worker_id)
            unnamed = current is None or (current.generation == record.generation and current.identity is None)
            if current == instead_of if instead_of is not None else unnamed:
                write_record(state_dir, record)
    except LockedError:
        pass  # whoever starts or stops it now writes the record as well
