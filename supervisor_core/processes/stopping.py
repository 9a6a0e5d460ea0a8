"""Stops a worker: it is asked first, then forced, and stopped only when a fresh scan finds no process of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.host.process_facts.identity import state
from supervisor_core.host.process_facts.signals import CONTINUE, FREEZE, KILL, TERMINATE, send, wait_ended
from supervisor_core.processes import children
from supervisor_core.processes.finding import ProcessTable, scan_processes

REST_GRACE_SECONDS = 2.0  # for those who were not asked before: long enough to flush a file, short for a person
FREEZE_BOUND_SECONDS = 2.0  # freezing takes milliseconds; a set that forks faster than this is killed unfrozen
FREEZE_STEP_SECONDS = 0.002  # a stop signal is obeyed within microseconds, unless a system call is in the way
KILL_WAIT_SECONDS = 5.0  # who lives on after this hangs inside the kernel, and no signal helps
KILL_ROUNDS = 3  # a new member after a freeze is rare; after three the answer is honest: stuck

_UNABLE_TO_FORK = frozenset({"stopped", "tracing-stop", "disk-sleep", "zombie", "dead"})
"""The statuses of processes that can't fork at the moment."""


class Ending(StrEnum):
    """The end of the leader."""

    NOTHING = "nothing"
    """There was no leader any more; only leftovers, or not even those."""
    GRACEFUL = "graceful"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class StopReport:
    """The result of a stop. With survivors the worker is `stuck`, else `stopped`."""

    worker_id: str
    ending: Ending = Ending.NOTHING
    seconds: float = 0.0
    exit_code: int | None = None
    """Negative for a signal; None where unknown: only the parent of a process learns it."""
    killed: tuple[WorkerProcess, ...] = ()
    """The killed processes, the leader included; those that ended when asked are not listed."""
    survivors: tuple[WorkerProcess, ...] = ()

    def __bool__(self) -> bool:
        """True if the worker is stopped."""
        return self.stopped

    @property
    def state(self) -> str:
        """`stopped` or `stuck`."""
        return "stuck" if self.survivors else "stopped"

    @property
    def stopped(self) -> bool:
        """True if the whole set was looked for and is empty."""
        return not self.survivors


def signal_number(name: str) -> int:
    """The number of a signal named as in the configuration: TERM, INT, SIGUSR1 …"""
    try:
        return int(signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"])
    except KeyError:
        raise UsageError(f"{name!r} isn't a signal on this system.", remedy="The usual one is TERM.") from None


class WorkerMembers:
    """The processes of one launch over several scans. Everyone ever seen stays known, so that nobody gets lost by
    changing parents."""

    def __init__(self, generation: str, leader: ProcessIdentity | None) -> None:
        self.generation = generation
        self.leader = leader
        self.known: dict[ProcessIdentity, WorkerProcess] = {}

    def find(self, table: ProcessTable) -> tuple[WorkerProcess, ...]:
        """The live ones, the leader first."""
        members = table.members(self.generation, self.leader, self.known)
        self.known.update({member.identity: member for member in members})
        return members

    def wait(self, identities: Sequence[ProcessIdentity], seconds: float) -> None:
        """Wait for the end of some of them."""
        wait_ended(identities, seconds)
        if self.leader:
            children.exit_code(self.leader)  # reaps it

    def freeze(self, own_line: Collection[int]) -> tuple[WorkerProcess, ...]:
        """Freeze everyone until nobody new appears.

        Two scans in a row must agree: the first finds all of them stopped, and only what the second finds as well can't
        have been forked behind the back of the first.
        """
        deadline = time.monotonic() + FREEZE_BOUND_SECONDS
        before: set[ProcessIdentity] = set()
        frozen: set[ProcessIdentity] = set()
        is_stable = False

        def freeze(identity: ProcessIdentity, generation: str = self.generation) -> None:
            is_member = generation.startswith(self.generation) and identity.pid not in own_line
            if is_member and identity not in frozen and _send(identity, FREEZE):
                frozen.add(identity)

        while True:
            members = self.find(ProcessTable(freeze))
            new = [member.identity for member in members if member.identity not in before]
            if (not new and is_stable) or time.monotonic() >= deadline:
                return members
            for identity in new:
                freeze(identity)
            before.update(new)
            is_stable = not new and all(member.status in _UNABLE_TO_FORK for member in members)
            if not is_stable:
                time.sleep(FREEZE_STEP_SECONDS)


def stop_processes(
    worker_id: str, generation: str, leader: ProcessIdentity | None, stop_signal: int, timeout: float
) -> StopReport:
    """End all processes of a launch.

    1. Send the stop signal to the leader, and give it time to obey.
    2. Send TERM to all who weren't asked yet, and give them a moment.
    3. Freeze those who are left, so that none can fork while the others are killed, and kill them, the leader last: its
       end orphans its group, and the kernel then wakes what is stopped there.
    4. Search again, until nobody is left or it doesn't help.
    """
    started, table, members = time.monotonic(), scan_processes(), WorkerMembers(generation, leader)
    if leader and leader.pid in table.own_line:
        raise RefusedError(
            f"Worker {worker_id} (pid {leader.pid}) started this program, so this program can't stop it.",
            remedy="Stop it from another shell.",
        )
    members.find(table)
    killed: dict[ProcessIdentity, WorkerProcess] = {}
    ending, terminated = Ending.NOTHING, None
    if leader and not state(leader).ended:
        ending = Ending.GRACEFUL
        if _send(leader, stop_signal) and stop_signal == KILL and leader in members.known:
            killed[leader] = members.known[leader]
        _continue(leader)
        members.wait([leader], timeout)
        terminated = leader if stop_signal == TERMINATE else None
    survivors = members.find(scan_processes())
    if unasked := [member.identity for member in survivors if member.identity != terminated]:
        for identity in unasked:
            _send(identity, TERMINATE)
            _continue(identity)
        members.wait(unasked, REST_GRACE_SECONDS)
    if survivors:
        attempted: set[ProcessIdentity] = set()
        for _ in range(KILL_ROUNDS):
            table = scan_processes()
            if all(member.identity in attempted for member in members.find(table)):
                break
            frozen = members.freeze(table.own_line)
            for member in reversed(frozen):
                if _send(member.identity, KILL):
                    killed[member.identity] = member
            attempted.update(member.identity for member in frozen)
            members.wait([member.identity for member in frozen], KILL_WAIT_SECONDS)
        survivors = members.find(scan_processes())
        for member in survivors:
            killed.pop(member.identity, None)
    if ending is Ending.GRACEFUL and leader and (not state(leader).ended or leader in killed):
        ending = Ending.KILLED
    return StopReport(
        worker_id,
        ending=ending,
        seconds=time.monotonic() - started,
        exit_code=children.exit_code(leader) if leader else None,
        killed=tuple(killed.values()),
        survivors=survivors,
    )


def _send(identity: ProcessIdentity, number: int) -> bool:
    """Signal it; one that we may not signal stays where it is, and is named as a survivor in the end."""
    try:
        return send(identity, number)
    except PermissionError:
        return False


def _continue(identity: ProcessIdentity) -> None:
    """A frozen process obeys nothing before it continues, except being killed."""
    if state(identity) is Liveness.FROZEN:
        _send(identity, CONTINUE)
