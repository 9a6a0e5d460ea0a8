"""The process set of a worker: everything that it started, wherever that went since.

To it belong the leader, its descendants, the members of its sessions, and every process whose environment
carries the generation of the launch: the last finds those who left the session and were re-parented.
Never ourselves, our ancestors, or the system's first process, whatever they carry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from supervisor_core.adapters.processes_identity import identity_of, life_of, platform
from supervisor_core.adapters.processes_values import Facts, Member, ProcessIdentity


def process_set(
    generation: str,
    leader: ProcessIdentity | None = None,
    known: Iterable[ProcessIdentity] = (),
    on_sight: Callable[[ProcessIdentity], object] | None = None,
) -> tuple[Member, ...]:
    """A fresh look: who belongs to this launch and lives, the leader first.

    `generation` may be the beginning of one, which all launches of a worker share. `known` are members of an
    earlier look. They count for as long as they live, because a process that left its session and lost its
    parent meanwhile could not be found a second time without them. `on_sight` is called for a carrier of the
    generation at the moment it is seen: one that forks and ends all the time would be gone after the look.
    """
    never = own_line()
    table: dict[int, Facts] = {}
    seeds: set[int] = set()
    for pid in platform.pids():
        carries = bool(generation) and platform.token_of(pid).startswith(generation)
        found = platform.glance(pid)
        if found is None:
            continue
        table[pid] = found
        if carries:
            seeds.add(pid)
            if on_sight and pid not in never:
                on_sight(identity_of(found))
    for identity in (*known, *((leader,) if leader else ())):
        if (found := table.get(identity.pid)) and identity_of(found) == identity:
            seeds.add(identity.pid)
    first = leader.pid if leader else 0
    pids = related(table, seeds, session=first, never=never)
    alive = (table[pid] for pid in sorted(pids, key=lambda pid: (pid != first, pid)))
    return tuple(Member(identity_of(found), found.name, found.state) for found in alive if not life_of(found).ended)


def carriers(prefix: str) -> tuple[tuple[str, Facts], ...]:
    """Every process whose generation begins so, with that generation. Never ourselves or our ancestors."""
    line = own_line()
    tokens = ((platform.token_of(pid), pid) for pid in platform.pids() if pid not in line)
    carrying = ((token, platform.glance(pid)) for token, pid in tokens if token and token.startswith(prefix))
    return tuple((token, found) for token, found in carrying if found is not None)


def related(table: Mapping[int, Facts], seeds: set[int], *, session: int, never: set[int]) -> set[int]:
    """The seeds with all that hangs on them: descendants, and the members of sessions that are theirs.

    A session is theirs where its leader is one of them; that of the worker itself (`session`) also after its
    leader is gone, where one of them is still in it: only then its number can't belong to somebody else.
    """
    members = seeds - never
    while True:
        sessions = {pid for pid in members if table[pid].session == pid}
        sessions |= {session} & {table[pid].session for pid in members}
        sessions -= {0, 1}
        more = {
            pid
            for pid, found in table.items()
            if pid not in members and pid not in never and (found.ppid in members or found.session in sessions)
        }
        if not more:
            return members
        members |= more


def own_line() -> set[int]:
    """Ourselves, all above us, and the system's first process: what no stop may ever touch."""
    line = {0, 1}
    pid = os.getpid()
    while pid not in line:
        line.add(pid)
        found = platform.glance(pid)
        pid = found.ppid if found else 0
    return line
