"""Stops a worker: it is asked first, then forced, and stopped only when a fresh scan finds no process of it.

The steps: the stop signal to the leader and time to obey; TERM to the rest and a moment; then all are frozen, so that
none can fork while the others are killed; killed; and searched for again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
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

_HELD = frozenset({"stopped", "tracing-stop", "disk-sleep", "zombie", "dead"})
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


class WorkerStop:
    """One stop under way. `known` is everyone ever seen, so that nobody gets lost by changing parents."""

    def __init__(self, worker_id: str, generation: str, leader: ProcessIdentity | None) -> None:
        self.worker_id = worker_id
        self.generation = generation
        self.leader = leader
        self.known: dict[ProcessIdentity, WorkerProcess] = {}
        self.killed: dict[ProcessIdentity, WorkerProcess] = {}
        self.own_line: set[int] = set()

    def run(self, stop_signal: int = TERMINATE, timeout: float = 30.0) -> StopReport:
        """End the worker's whole set, and say how."""
        begun = time.monotonic()
        leader, table = self.leader, scan_processes()
        self.own_line = table.own_line
        if leader and leader.pid in self.own_line:
            raise RefusedError(
                f"Worker {self.worker_id} (pid {leader.pid}) started this program, so this program can't stop it.",
                remedy="Stop it from another shell.",
            )
        ending = Ending.NOTHING
        asked: set[ProcessIdentity] = set()
        self._members(table)
        if leader and not state(leader).ended:
            ending = Ending.GRACEFUL
            if _send(leader, stop_signal) and stop_signal == KILL and leader in self.known:
                self.killed[leader] = self.known[leader]
            self._await([leader], timeout)
            asked = {leader} if stop_signal == TERMINATE else set()
        survivors = self._members(scan_processes())
        if unasked := [member.identity for member in survivors if member.identity not in asked]:
            for identity in unasked:
                _send(identity, TERMINATE)
            self._await(unasked, REST_GRACE_SECONDS)
        if survivors:
            survivors = self._kill_all()
        if ending is Ending.GRACEFUL and leader and (not state(leader).ended or leader in self.killed):
            ending = Ending.KILLED
        return StopReport(
            self.worker_id,
            ending=ending,
            seconds=time.monotonic() - begun,
            exit_code=children.exit_code(leader) if leader else None,
            killed=tuple(self.killed.values()),
            survivors=survivors,
        )

    def _members(self, table: ProcessTable) -> tuple[WorkerProcess, ...]:
        members = table.members(self.generation, self.leader, self.known)
        self.known.update({member.identity: member for member in members})
        return members

    def _await(self, identities: Sequence[ProcessIdentity], seconds: float) -> None:
        """Wait for their end. A frozen process obeys nothing before it continues, except being killed."""
        for identity in identities:
            if state(identity) is Liveness.FROZEN:
                _send(identity, CONTINUE)
        wait_ended(identities, seconds)
        if self.leader:
            children.exit_code(self.leader)  # reaps it

    def _kill_all(self) -> tuple[WorkerProcess, ...]:
        """Freeze and kill whoever is left, and look again until nobody is, or until it does not help.

        The leader comes last: its end orphans its group, and the kernel then wakes what is stopped there.
        """
        tried: set[ProcessIdentity] = set()
        for _ in range(KILL_ROUNDS):
            if all(member.identity in tried for member in self._members(scan_processes())):
                break
            left = self._freeze()
            for member in reversed(left):
                if _send(member.identity, KILL):
                    self.killed[member.identity] = member
            tried.update(member.identity for member in left)
            wait_ended([member.identity for member in left], KILL_WAIT_SECONDS)
            if self.leader:
                children.exit_code(self.leader)
        survivors = self._members(scan_processes())
        for member in survivors:
            self.killed.pop(member.identity, None)
        return survivors

    def _freeze(self) -> tuple[WorkerProcess, ...]:
        """Stop everyone until nobody new appears.

        Two looks in a row must agree: the first finds all of them stopped, and only what the second finds
        as well can't have been forked behind the back of the first.
        """
        deadline = time.monotonic() + FREEZE_BOUND_SECONDS
        before: set[ProcessIdentity] = set()
        frozen: set[ProcessIdentity] = set()
        quiet = False

        def freeze(identity: ProcessIdentity) -> None:
            if identity not in frozen and _send(identity, FREEZE):
                frozen.add(identity)

        def freeze_carrier(identity: ProcessIdentity, generation: str) -> None:
            if generation.startswith(self.generation) and identity.pid not in self.own_line:
                freeze(identity)

        while True:
            members = self._members(ProcessTable(freeze_carrier))
            new = [member.identity for member in members if member.identity not in before]
            if (not new and quiet) or time.monotonic() >= deadline:
                return members
            for identity in new:
                freeze(identity)
            before.update(new)
            quiet = not new and all(member.status in _HELD for member in members)
            if not quiet:
                time.sleep(FREEZE_STEP_SECONDS)


def _send(identity: ProcessIdentity, number: int) -> bool:
    """Signal it; one that we may not signal stays where it is, and is named as a survivor in the end."""
    try:
        return send(identity, number)
    except PermissionError:
        return False
