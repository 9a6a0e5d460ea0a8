"""The process set of a worker: everything that it started, wherever that went since.

To it belong the leader, its descendants, the members of its sessions, and every process whose environment
carries the generation of the launch: the last finds those who left the session and were re-parented.
Never ourselves, our ancestors, or the system's first process, whatever they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from supervisor_core.adapters.processes_identity import identity_of, life_of, platform
from supervisor_core.adapters.processes_scan import Scan, line_of, scan, walk
from supervisor_core.adapters.processes_values import Facts, Member, ProcessIdentity


def process_set(
    generation: str,
    leader: ProcessIdentity | None = None,
    known: Iterable[ProcessIdentity] = (),
    among: Scan | None = None,
) -> tuple[Member, ...]:
    """Who belongs to this launch and lives, the leader first: by a fresh look, or `among` those of one just made.

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
    return tuple(Member(identity_of(found), found.name, found.state) for found in alive if not life_of(found).ended)


def walk_with(generation: str, on_sight: Callable[[ProcessIdentity], object]) -> Scan:
    """A walk of one's own, told of each carrier of the generation at the moment it is seen.

    One that forks and ends all the time would be gone after the walk.
    """
    never = own_line()

    def seen(found: Facts, token: str) -> None:
        if generation and token.startswith(generation) and found.pid not in never:
            on_sight(identity_of(found))

    return walk(seen)


def carriers(prefix: str) -> tuple[tuple[str, Facts], ...]:
    """Every process whose generation begins so, with that generation. Never ourselves or our ancestors."""
    among = scan()
    return tuple((token, found) for token, found in among.carriers(prefix) if found.pid not in among.never)


def related(among: Scan, seeds: set[int], *, session: int) -> set[int]:
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
    """Ourselves, all above us, and the system's first process: what no stop may ever touch."""
    return line_of(platform.glance)
