"""The process set of a worker: everything that it started, wherever that went since.

To it belong the leader, its descendants, the members of its sessions, and every process whose environment
carries the generation of the launch: the last finds those who left the session and were re-parented.
Never ourselves, our ancestors, or the system's first process, whatever they carry.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from supervisor_core.adapters.processes_identity import identity_of, life_of, platform
from supervisor_core.adapters.processes_values import Facts, Member, ProcessIdentity


def process_set(
    generation: str, leader: ProcessIdentity | None = None, known: Iterable[ProcessIdentity] = ()
) -> tuple[Member, ...]:
    """A fresh look: who belongs to this launch and lives, the leader first.

    `generation` may be the beginning of one, which all launches of a worker share. `known` are members of an
    earlier look. They count for as long as they live, because a process that left its session and lost its
    parent meanwhile could not be found a second time without them.
    """
    table = platform.table()
    seeds = {pid for pid in table if platform.token_of(pid).startswith(generation)} if generation else set()
    for identity in (*known, *((leader,) if leader else ())):
        if (found := table.get(identity.pid)) and identity_of(found) == identity:
            seeds.add(identity.pid)
    first = leader.pid if leader else 0
    pids = related(table, seeds, session=first, own=os.getpid())
    alive = (table[pid] for pid in sorted(pids, key=lambda pid: (pid != first, pid)))
    return tuple(
        Member(identity_of(found), found.name, found.state) for found in alive if not life_of(found).ended
    )


def carriers(prefix: str) -> tuple[tuple[str, Facts], ...]:
    """Every process whose generation begins so, with that generation. Never ourselves or our ancestors."""
    table = platform.table()
    line = own_line(table, os.getpid())
    tokens = ((platform.token_of(pid), table[pid]) for pid in sorted(table) if pid not in line)
    return tuple((token, found) for token, found in tokens if token and token.startswith(prefix))


def related(table: Mapping[int, Facts], seeds: set[int], *, session: int, own: int) -> set[int]:
    """The seeds with all that hangs on them: descendants, and the members of sessions that are theirs.

    A session is theirs where its leader is one of them; that of the worker itself (`session`) also after its
    leader is gone, where one of them is still in it: only then its number can't belong to somebody else.
    """
    never = own_line(table, own)
    members = seeds - never
    while True:
        sessions = {pid for pid in members if table[pid].session == pid}
        sessions |= {session} & {table[pid].session for pid in members}
        sessions -= {0, 1}
        more = {
            pid
            for pid, found in table.items()
            if pid not in members
            and pid not in never
            and (found.ppid in members or found.session in sessions)
        }
        if not more:
            return members
        members |= more


def own_line(table: Mapping[int, Facts], own: int) -> set[int]:
    """Ourselves, all above us, and the system's first process: what no stop may ever touch."""
    line = {0, 1}
    while own in table and own not in line:
        line.add(own)
        own = table[own].ppid
    return line
