"""Finds the processes of a worker: by its record where that holds, else by the generation in their environment.

To a worker belong the leader, its descendants, the members of its sessions, and every process whose environment
carries the generation of the launch: the last finds those who left the session and were re-parented. Never ourselves,
our ancestors, or the system's first process.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.process_facts import linux as platform
from supervisor_core.host.process_facts.facts import Liveness, ProcessFacts, ProcessIdentity, WorkerProcess
from supervisor_core.host.process_facts.identity import identity_of, life_of, state
from supervisor_core.processes.records import (
    STARTING,
    STOP,
    STUCK,
    WorkerRecord,
    lock_path,
    place_of,
    read_record,
    write_record,
)
from supervisor_core.processes.shared_scans import SharedScans
from supervisor_core.processes.together import SharedNeed, Steps, stepwise


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
    """Found by its generation, and not by its record: whoever started it did not live to write that."""
    reason: str = ""
    others: tuple[int, ...] = ()
    """The processes that claim to be it, where that is the reason why nobody can tell."""

    def __bool__(self) -> bool:
        """True if the worker runs."""
        return self.presence is Presence.RUNNING

    @property
    def stuck(self) -> bool:
        """True if something of it lives that a stop could not end."""
        lives = self.presence is Presence.RUNNING or bool(self.leftovers)
        return lives and self.record is not None and self.record.state == STUCK

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
        """The process of a running worker."""
        return self.record.identity if self.record and self.presence is Presence.RUNNING else None


@stepwise
def find(
    state_dir: Path, worker_id: str, *, locked: bool = False, looked: FoundWorker | None = None
) -> Steps[FoundWorker]:
    """Look for a worker. A process found without its record is adopted, and its record completed.

    `locked`: the caller holds the worker's lock. Otherwise, a record is completed only if that is free, so that a slow
    reader never writes over the record of a newer launch.
    `looked`: the result of an earlier search of all processes. Where it found none and the record is still the same,
    nobody has launched the worker since, and there is still none."""
    try:
        record = read_record(state_dir, worker_id)
    except (UnreadableFileError, PermissionError) as error:
        reason = f"{error} Find its process, stop it if there is one, and delete the file."
        return FoundWorker(worker_id, Presence.UNVERIFIABLE, life=Liveness.UNVERIFIABLE, reason=reason)
    if looked is not None and looked.presence is Presence.STOPPED and not looked.leftovers and looked.record == record:
        return looked
    if record is not None and record.identity is not None:
        life = state(record.identity)
        if life.running:
            return FoundWorker(worker_id, Presence.RUNNING, _followed_up(state_dir, record, locked=locked), life)
        if life is Liveness.UNVERIFIABLE:
            reason = f"The system doesn't say whether process {record.identity.pid} is still this worker."
            return FoundWorker(worker_id, Presence.UNVERIFIABLE, record, life, reason=reason)
        return (yield from _leftovers(worker_id, record))
    return (yield from _search(state_dir, worker_id, record, locked=locked))


def _leftovers(worker_id: str, record: WorkerRecord) -> Steps[FoundWorker]:
    search = partial(process_set, record.generation, record.identity, ())
    observing = _look.get() is not None
    if observing and record.state != STUCK:  # who starts or stops it searches anew
        return FoundWorker(worker_id, Presence.STOPPED, record)
    left = () if observing and _is_empty(search) else search((yield Scanned()))
    return FoundWorker(worker_id, Presence.STOPPED, record, leftovers=left)


def _search(state_dir: Path, worker_id: str, record: WorkerRecord | None, *, locked: bool) -> Steps[FoundWorker]:
    """Look for the process of a launch whose record names none, or was lost altogether."""
    search = partial(carriers, record.generation if record else place_of(state_dir, worker_id))
    there = () if record is None and _is_empty(search) else search((yield Scanned()))
    if record is None:
        # Anybody can work out how our launches of a worker begin; only the rest of a launch on record is a secret.
        there = tuple((token, found) for token, found in there if platform.owners(found.pid) == platform.own_owners())
    if not there:
        return FoundWorker(worker_id, Presence.STOPPED, record)
    leader = _leader(there)
    if leader is None:
        return (yield from _leftovers(worker_id, record or WorkerRecord(worker_id, there[0][0], STARTING)))
    if record is None:
        record = WorkerRecord(worker_id, next(token for token, found in there if found == leader), STARTING)
    adopted = record.running_as(identity_of(leader))
    _complete(state_dir, adopted, locked=locked)
    return FoundWorker(worker_id, Presence.RUNNING, adopted, life_of(leader), adopted=True)


def _leader(there: tuple[tuple[str, ProcessFacts], ...]) -> ProcessFacts | None:
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
    from supervisor_core.host.locks import FileLock, LockedError
    from supervisor_core.processes.records import prepare_folder

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


class ProcessScan:
    """The result of one scan. Threads share it, and nobody changes it."""

    def __init__(self, table: Mapping[int, ProcessFacts], tokens: Mapping[int, str], *, quiet: bool) -> None:
        self.table = table
        """Every process that we may see, by its PID."""
        self.quiet = quiet
        """Nothing at all was born on this host from before the walk until after it."""
        self._tokens = sorted((token, pid) for pid, token in tokens.items())

    @cached_property
    def never(self) -> frozenset[int]:
        """Ourselves, all above us, and the system's first process: what no stop may ever touch."""
        return line_of(self.table.get)

    @cached_property
    def children(self) -> Mapping[int, list[int]]:
        return _grouped((found.ppid, pid) for pid, found in self.table.items())

    @cached_property
    def sessions(self) -> Mapping[int, list[int]]:
        return _grouped((found.session, pid) for pid, found in self.table.items())

    def carriers(self, prefix: str) -> Iterator[tuple[str, ProcessFacts]]:
        """Every process whose generation begins so, with that generation; ourselves and our ancestors as well."""
        for token, pid in self._tokens[bisect_left(self._tokens, (prefix, 0)) :] if prefix else ():
            if not token.startswith(prefix):
                return
            yield token, self.table[pid]


def walk(on_sight: Callable[[ProcessFacts, str], object] | None = None) -> ProcessScan:
    """Walk through all processes, now; each that carries a generation is told at the moment it is seen."""
    newest = platform.newest_pid()
    table: dict[int, ProcessFacts] = {}
    tokens: dict[int, str] = {}
    for pid in platform.pids():
        seen = platform.sight(pid)
        if seen is None:
            continue
        table[pid], token = seen
        if token:
            tokens[pid] = token
            if on_sight:
                on_sight(*seen)
    return ProcessScan(table, tokens, quiet=platform.newest_pid() == newest)


def line_of(glance: Callable[[int], ProcessFacts | None]) -> frozenset[int]:
    """Ourselves, all above us, and the system's first process."""
    line = {0, 1}
    pid = os.getpid()
    while pid not in line:
        line.add(pid)
        found = glance(pid)
        pid = found.ppid if found else 0
    return frozenset(line)


def _grouped(pairs: Iterable[tuple[int, int]]) -> Mapping[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for key, pid in pairs:
        groups.setdefault(key, []).append(pid)
    return groups


_walks = SharedScans(walk)


def scan() -> ProcessScan:
    """All processes of this host, by a walk that begins after this call."""
    return _walks.scan()


class Scanned(SharedNeed):
    """All processes of this host, by a walk that begins after this need."""

    @classmethod
    def answer(cls, needs: Sequence[Scanned]) -> Sequence[ProcessScan]:
        """One walk for all."""
        return [scan()] * len(needs)


_look: ContextVar[list[ProcessScan] | None] = ContextVar("the scan of a look", default=None)


@contextmanager
def one_scan() -> Iterator[None]:
    """In a look at many workers, make one scan for all without a process. What it shows of others is searched anew.

    What an ended process has left behind isn't searched for, except where a stop couldn't end it.
    """
    token = _look.set([])
    try:
        yield
    finally:
        _look.reset(token)


def _is_empty(search: Callable[[ProcessScan], object]) -> bool:
    """True if this search finds nothing in the scan of this look; False outside of one."""
    if (scans := _look.get()) is None:
        return False
    scans[:] = scans or [scan()]
    return not search(scans[0])


def _forget_in_child() -> None:
    """After a fork: the walk that was under way goes on in the parent only."""
    global _walks  # noqa: PLW0603 (a condition held across a fork can't be waited for any more)
    _walks = SharedScans(walk)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def process_set(
    generation: str,
    leader: ProcessIdentity | None = None,
    known: Iterable[ProcessIdentity] = (),
    among: ProcessScan | None = None,
) -> tuple[WorkerProcess, ...]:
    """The live processes of this launch, the leader first, by a fresh scan or `among` those of one just made.

    `generation` may be the beginning of one, which all launches of a worker share. `known` are members of an
    earlier look. They count for as long as they live, because a process that left its session and lost its
    parent meanwhile could not be found a second time without them.
    """
    among = among or scan()
    table = among.table
    seeds = {found.pid for _, found in among.carriers(generation)}
    for identity in (*known, *((leader,) if leader else ())):
        if (found := table.get(identity.pid)) and identity_of(found) == identity:
            seeds.add(identity.pid)
    first = leader.pid if leader else 0
    pids = related(among, seeds, session=first)
    alive = (table[pid] for pid in sorted(pids, key=lambda pid: (pid != first, pid)))
    return tuple(
        WorkerProcess(identity_of(found), found.name, found.state) for found in alive if not life_of(found).ended
    )


def walk_with(generation: str, on_sight: Callable[[ProcessIdentity], object]) -> ProcessScan:
    """A walk of one's own, told of each carrier of the generation at the moment it is seen.

    One that forks and ends all the time would be gone after the walk.
    """
    never = own_line()

    def seen(found: ProcessFacts, token: str) -> None:
        if generation and token.startswith(generation) and found.pid not in never:
            on_sight(identity_of(found))

    return walk(seen)


def carriers(prefix: str, among: ProcessScan | None = None) -> tuple[tuple[str, ProcessFacts], ...]:
    """Every process whose generation begins so, with that generation. Never ourselves or our ancestors."""
    among = among or scan()
    return tuple((token, found) for token, found in among.carriers(prefix) if found.pid not in among.never)


def related(among: ProcessScan, seeds: set[int], *, session: int) -> set[int]:
    """The seeds with all that hangs on them: descendants, and the members of sessions that are theirs.

    A session is theirs where its leader is one of them; that of the worker itself (`session`) also after its
    leader is gone, where one of them is still in it: only then its number can't belong to somebody else.
    """
    members: set[int] = set()
    new = seeds - among.never
    while new:
        members |= new
        theirs = {found.session for pid in new if (found := among.table[pid]).session in (pid, session)} - {0, 1}
        hanging = (among.children.get(pid, ()) for pid in new), (among.sessions.get(number, ()) for number in theirs)
        new = {pid for groups in hanging for group in groups for pid in group} - members - among.never
    return members


def own_line() -> frozenset[int]:
    """Ourselves, all above us, and the system's first process: what no stop may ever touch.

    Looked at once a second: of those above us, some may end at any time, and none is added.
    """
    return _own_line(os.getpid(), int(time.monotonic()))


@lru_cache(maxsize=1)
def _own_line(_pid: int, _second: int) -> frozenset[int]:
    return line_of(platform.glance)
