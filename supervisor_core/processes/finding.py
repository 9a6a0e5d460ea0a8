"""Finds the processes of a worker: by its record where that holds, else by the generation in their environment.

To a worker belong the leader, its descendants, the members of its sessions, and every process whose environment
carries the generation of the launch: the last finds those who left the session and were re-parented. Never ourselves,
our ancestors, or the system's first process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE, Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.host.process_facts.identity import (
    identity_of,
    life_of,
    parent_of,
    process_name,
    since_boot,
    state,
)
from supervisor_core.processes.records import (
    STARTING,
    STOP,
    STUCK,
    WorkerRecord,
    generation_prefix,
    lock_path,
    prepare_folder,
    read_record,
    write_record,
)

if TYPE_CHECKING:
    import psutil


LISTINGS = 10
"""Who is born during a scan is looked at as well, again and again: one that forks and ends all the time is never in the
first listing. The bound is for a host on which something is always born."""


class Presence(StrEnum):
    """A worker runs, for whoever wants to start or stop it."""

    RUNNING = "running"
    STOPPED = "stopped"
    UNVERIFIABLE = "unverifiable"
    """Nobody can tell. Neither start nor signal it; a person must look."""


class FoundWorker(NamedTuple):
    """The result of a search for a worker. `leftovers` are processes of a launch whose leader is gone."""

    worker_id: str
    presence: Presence
    record: WorkerRecord | None = None
    life: Liveness = Liveness.GONE
    leftovers: tuple[WorkerProcess, ...] = ()
    adopted: bool = False
    """Found without its record: whoever started it didn't write that."""
    reason: str = ""
    others: tuple[int, ...] = ()
    """Processes that look like it: beside the running worker, or as the reason why nobody can tell."""

    def __bool__(self) -> bool:
        """True if the worker runs."""
        return self.presence is Presence.RUNNING

    @property
    def stuck(self) -> bool:
        """True if something of it lives that a stop could not end."""
        is_alive = self.presence is Presence.RUNNING or bool(self.leftovers)
        return is_alive and self.record is not None and self.record.state == STUCK

    @property
    def ordered(self) -> bool:
        """True if the supervisor itself ends this launch or tries it out, so that its end is no trouble."""
        return self.record is not None and self.record.order is not None

    @property
    def stopping(self) -> bool:
        """True if it runs and the supervisor has ordered its stop: it may end at any moment."""
        order = self.record.order if self.record and self.presence is Presence.RUNNING else None
        return order is not None and order.what == STOP

    @property
    def identity(self) -> ProcessIdentity | None:
        return self.record.identity if self.record and self.presence is Presence.RUNNING else None


class ProcessEntry(NamedTuple):
    """One process in the table."""

    identity: ProcessIdentity
    ppid: int
    session: int
    """On Windows, which has none, each process leads its own."""
    generation: str
    """The launch in the environment that it was started with; empty without one, or where that's hidden."""
    life: Liveness
    status: str
    """Both when it was seen, like the name: one that forks and ends all the time is gone soon after."""
    process: psutil.Process
    name: str = ""
    """Empty for one without a generation."""

    @property
    def pid(self) -> int:
        return self.identity.pid


class ProcessTable:
    """All processes that we may see, from one scan. Threads share it."""

    def __init__(self, on_carrier: Callable[[ProcessIdentity, str], object] = lambda *_: None) -> None:
        """`on_carrier` is called with each process that carries a generation at the moment it's seen, and with the
        generation: one that forks and ends all the time would be gone after the scan."""
        import psutil

        self.entries: dict[int, ProcessEntry] = {}
        listed: set[int] = set()
        for _ in range(LISTINGS):
            new = set(psutil.pids()) - listed
            if not new:  # none was born since the last listing
                break
            listed |= new
            for pid in sorted(new, reverse=True):
                try:
                    process = psutil.Process(pid)
                    generation, identity = _generation(process), identity_of(process)
                    if generation:
                        on_carrier(identity, generation)
                    session = pid if sys.platform == "win32" else os.getsid(pid)
                    with process.oneshot():
                        name = process.name() if generation else ""
                        facts = generation, life_of(process), process.status(), process, name
                        self.entries[pid] = ProcessEntry(identity, parent_of(process), session, *facts)
                except (psutil.Error, OSError):  # gone by now, or hidden
                    continue
        self.own_line = {0, 1, os.getpid(), *self.ancestors(os.getpid())}
        """Ourselves, all above us, and the system's first process: what no stop may ever touch."""

    def ancestors(self, pid: int) -> list[int]:
        """The parents of a process, the nearest first, without the system's first process."""
        pids: list[int] = []
        while pid in self.entries and (pid := self.entries[pid].ppid) > 1 and pid not in pids:
            pids.append(pid)
        return pids

    @cached_property
    def commands(self) -> dict[int, list[str]]:
        """The words that each was started with, read when first asked for. Without those who hide them, or have ended,
        and without ourselves and our ancestors."""
        import psutil

        commands: dict[int, list[str]] = {}
        for pid in self.entries.keys() - self.own_line:
            with suppress(psutil.Error, OSError):
                commands[pid] = self.entries[pid].process.cmdline()
        return commands

    def carriers(self, generation: str) -> list[ProcessEntry]:
        """Every process whose generation begins so. Never ourselves or our ancestors."""
        return [
            entry
            for pid, entry in self.entries.items()
            if generation and entry.generation.startswith(generation) and pid not in self.own_line
        ]

    def members(
        self, generation: str, leader: ProcessIdentity | None = None, known: Iterable[ProcessIdentity] = ()
    ) -> tuple[WorkerProcess, ...]:
        """The live processes of this launch, the leader first.

        `known` are members of an earlier look. They count for as long as they live, because a process that left its
        session and lost its parent meanwhile couldn't be found a second time without them. A session belongs to the
        launch if its leader does. That of the worker itself also belongs to it after the worker ended, while a member
        is still in it: only then its number can't be somebody else's.
        """
        new = {entry.pid for entry in self.carriers(generation)}
        for identity in (*known, *((leader,) if leader else ())):
            if identity.pid in self.entries and self.entries[identity.pid].identity == identity:
                new.add(identity.pid)
        first = leader.pid if leader else 0
        pids: set[int] = set()
        while new := new - pids - self.own_line:
            pids |= new
            sessions = {self.entries[pid].session for pid in new} & {*new, first} - {0, 1}
            new = {e.pid for e in self.entries.values() if e.ppid in new or e.session in sessions}
        members = [self.entries[pid] for pid in sorted(pids, key=lambda pid: (pid != first, pid))]
        return tuple(
            WorkerProcess(entry.identity, entry.name or process_name(entry.pid), entry.status)
            for entry in members
            if not entry.life.ended
        )


def _generation(process: psutil.Process) -> str:
    import psutil

    try:
        return process.environ().get(GENERATION_VARIABLE, "")
    except (psutil.Error, OSError):
        return ""


_scanning = threading.Lock()
_sharing = threading.Lock()
_next: Future[ProcessTable] | None = None
"""The scan that begins after the one under way, for all who asked meanwhile."""


def scan_processes() -> ProcessTable:
    """A table whose scan began after this call. Threads that ask during a scan share the next one."""
    global _next  # noqa: PLW0603 (what the threads share)
    with _sharing:
        if is_first := _next is None:
            _next = Future()
        scan = _next
    if is_first:
        with _scanning:
            with _sharing:
                _next = None
            try:
                scan.set_result(ProcessTable())
            except BaseException as error:  # noqa: BLE001 (all who asked get it)
                scan.set_exception(error)
    return scan.result()


def _forget_in_child() -> None:
    """After a fork: the scan that was under way goes on in the parent only."""
    global _scanning, _sharing, _next
    _scanning, _sharing, _next = threading.Lock(), threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


Scan = Callable[[], ProcessTable]


def find(
    state_dir: Path,
    worker_id: str,
    *,
    locked: bool = False,
    looked: FoundWorker | None = None,
    scan: Scan = scan_processes,
    thorough: bool = True,
) -> FoundWorker:
    """Look for a worker. A process found without its record is adopted, and its record completed.

    `locked`: the caller holds the worker's lock. Otherwise, a record is completed only if that is free, so that a slow
    reader never writes over the record of a newer launch.
    `looked`: the result of an earlier search of all processes. Where it found none and the record is still the same,
    nobody has launched the worker since, and there is still none.
    `scan`: for several searches of one table. Unless `thorough`, as for an observer of many workers, what an ended one
    has left is looked for only if a stop couldn't end it.
    """
    try:
        record = read_record(state_dir, worker_id)
    except (UnreadableFileError, PermissionError) as error:
        reason = f"{error} Find its process, stop it if there is one, and delete the file."
        return FoundWorker(worker_id, Presence.UNVERIFIABLE, life=Liveness.UNVERIFIABLE, reason=reason)
    if looked is not None and looked.presence is Presence.STOPPED and not looked.leftovers and looked.record == record:
        return looked
    if record is not None and (identity := record.identity) is not None:
        life = state(identity)
        if life.running:
            # One that has outlived what was ordered ends by its own doing from now on, unless it's stuck in its stop.
            if record.order is not None and record.state != STUCK and since_boot() > record.order.until:
                freed = record._replace(order=None)
                _complete(state_dir, freed, instead_of=record, locked=locked)
                record = freed
            return FoundWorker(worker_id, Presence.RUNNING, record, life)
        if life is Liveness.UNVERIFIABLE:
            reason = f"The system doesn't say whether process {identity.pid} is still this worker."
            return FoundWorker(worker_id, Presence.UNVERIFIABLE, record, life, reason=reason)
        if not thorough and record.state != STUCK:  # who starts or stops it searches anew
            return FoundWorker(worker_id, Presence.STOPPED, record)
        leftovers = scan().members(record.generation, identity)
        return FoundWorker(worker_id, Presence.STOPPED, record, leftovers=leftovers)
    if record is None:
        # Anybody can work out how our launches of a worker begin; only the rest of a launch on record is a secret.
        prefix = generation_prefix(state_dir, worker_id)
        carriers = [entry for entry in scan().carriers(prefix) if owners(entry.process) == own_owners()]
    else:
        # It may have been launched after an observer's scan.
        carriers = (scan if thorough else scan_processes)().carriers(record.generation)
    if not carriers:
        return FoundWorker(worker_id, Presence.STOPPED, record)
    # The launched process leads its session, and its parent is none of its own launch. A helper that made itself a
    # daemon looks the same, but is younger.
    pids = {entry.pid for entry in carriers}
    leaders = [entry for entry in carriers if entry.session == entry.pid and entry.ppid not in pids]
    leader = min(leaders, key=lambda entry: (entry.identity.start, entry.pid), default=None)
    if record is None:
        record = WorkerRecord(worker_id, (leader or carriers[0]).generation, STARTING)
    life = state(leader.identity) if leader is not None else Liveness.GONE
    if leader is None or life.ended:
        leftovers = scan_processes().members(record.generation)
        return FoundWorker(worker_id, Presence.STOPPED, record, leftovers=leftovers)
    record = record.running_as(leader.identity)
    _complete(state_dir, record, locked=locked)
    return FoundWorker(worker_id, Presence.RUNNING, record, life, adopted=True)


def _complete(state_dir: Path, record: WorkerRecord, *, instead_of: WorkerRecord | None = None, locked: bool) -> None:
    if locked:
        write_record(state_dir, record)
        return
    prepare_folder(state_dir)
    lock = FileLock(lock_path(state_dir, record.worker_id), f"adopting {record.worker_id}")
    with suppress(LockedError), lock:  # whoever starts or stops it now writes the record as well
        current = read_record(state_dir, record.worker_id)
        unnamed = current is None or (current.generation == record.generation and current.identity is None)
        if current == instead_of if instead_of is not None else unnamed:
            write_record(state_dir, record)


def owners(process: psutil.Process) -> tuple[int | str, ...] | None:
    """The real and the effective user of a process; None if it has ended or is hidden."""
    import psutil

    try:
        if sys.platform == "win32":
            return (process.username(),)
        users = process.uids()
    except (psutil.Error, OSError):
        return None
    return users.real, users.effective


def own_owners() -> tuple[int | str, ...] | None:
    """The users of this process, and so of every worker that it starts."""
    import psutil

    return owners(psutil.Process())
