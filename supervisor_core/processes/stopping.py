"""Stops a worker: it is asked first, then forced, and stopped only when a fresh scan finds no process of it.

The steps: the stop signal to the leader and time to obey; TERM to the rest and a moment; then all are frozen, so that
none can fork while the others are killed; killed; and searched for again.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from enum import StrEnum

from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity, WorkerProcess
from supervisor_core.host.process_facts.identity import state
from supervisor_core.host.process_facts.signals import CONTINUE, FREEZE, KILL, TERMINATE, send
from supervisor_core.processes import children
from supervisor_core.processes.finding import ProcessScan, Scanned, own_line, process_set, walk_with
from supervisor_core.processes.together import Ended, Steps, stepwise

REST_GRACE_SECONDS = 2.0  # for those who were not asked before: long enough to flush a file, short for a person
FREEZE_BOUND_SECONDS = 2.0  # freezing takes milliseconds; a set that forks faster than this is killed unfrozen
FREEZE_STEP_SECONDS = 0.002  # a stop signal is obeyed within microseconds, unless a system call is in the way
KILL_WAIT_SECONDS = 5.0  # who lives on after this hangs inside the kernel, and no signal helps
EMPTY_LOOKS = 5  # one is enough where nothing was born meanwhile; on a busy host more of them find more
KILL_ROUNDS = 3  # a new member after a freeze is rare; after three the answer is honest: stuck

_HELD = frozenset("TtDZXx")  # letters of processes that can't fork at the moment


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


@stepwise
def end(
    worker_id: str,
    generation: str,
    leader: ProcessIdentity | None,
    *,
    stop_signal: int = TERMINATE,
    timeout: float = 30.0,
) -> Steps[StopReport]:
    """End a worker's whole set, and say what came of it."""
    if leader and leader.pid in own_line():
        raise RefusedError(
            f"Worker {worker_id} (pid {leader.pid}) started this program, so this program can't stop it.",
            remedy="Stop it from another shell.",
        )
    return (yield from _Ending(worker_id, generation, leader).run(stop_signal, timeout))


@dataclass
class _Ending:
    """One stop under way. `known` is everyone ever seen, so that nobody gets lost by changing parents."""

    worker_id: str
    generation: str
    leader: ProcessIdentity | None
    known: dict[ProcessIdentity, WorkerProcess] = field(default_factory=dict)
    killed: dict[ProcessIdentity, WorkerProcess] = field(default_factory=dict)

    def run(self, stop_signal: int, timeout: float) -> Steps[StopReport]:
        begun = time.monotonic()
        had_leader = self.leader is not None and not state(self.leader).ended
        self.look((yield Scanned()))
        asked = (yield from self.ask_leader(stop_signal, timeout)) if had_leader else set()
        survivors = yield from self.look_closely()
        if survivors:
            yield from self.ask_rest(survivors, asked if stop_signal == TERMINATE else set())
            survivors = yield from self.kill_all()
        return StopReport(
            self.worker_id,
            ending=self.how(had_leader=had_leader),
            seconds=time.monotonic() - begun,
            exit_code=children.exit_code(self.leader) if self.leader else None,
            killed=tuple(self.killed.values()),
            survivors=survivors,
        )

    def look(self, among: ProcessScan) -> tuple[WorkerProcess, ...]:
        """The live processes, by a fresh scan."""
        members = process_set(self.generation, self.leader, self.known, among)
        self.known.update({member.identity: member for member in members})
        return members

    def look_closely(self) -> Steps[tuple[WorkerProcess, ...]]:
        """The same, where nobody is an answer that must be true.

        A look takes a moment, and a process that forks and ends all the time may slip through; but not where
        nothing at all was born on this host from before the look until after it.
        """
        for _ in range(EMPTY_LOOKS):
            among = yield Scanned()
            if (members := self.look(among)) or among.quiet:
                return members
        return ()

    def ask_leader(self, number: int, timeout: float) -> Steps[set[ProcessIdentity]]:
        leader = self.leader
        assert leader is not None  # noqa: S101 (the caller looked)
        if _send(leader, number) and number == KILL and leader in self.known:
            self.killed[leader] = self.known[leader]
        if state(leader) is Liveness.FROZEN:
            _send(leader, CONTINUE)  # a frozen process obeys nothing before this, except being killed
        yield Ended((leader,), timeout)
        children.exit_code(leader)
        return {leader}

    def ask_rest(self, rest: tuple[WorkerProcess, ...], asked: set[ProcessIdentity]) -> Steps[None]:
        """Everyone still there gets TERM and a moment, unless all of them have had theirs already."""
        unasked = [member for member in rest if member.identity not in asked]
        for member in unasked:
            _send(member.identity, TERMINATE)
            if state(member.identity) is Liveness.FROZEN:
                _send(member.identity, CONTINUE)
        if unasked:
            yield Ended(tuple(member.identity for member in unasked), REST_GRACE_SECONDS)

    def kill_all(self) -> Steps[tuple[WorkerProcess, ...]]:
        """Freeze and kill whoever is left, and look again until nobody is, or until it does not help.

        The leader comes last: its end orphans its group, and the kernel then wakes what is stopped there.
        """
        tried: set[ProcessIdentity] = set()
        for _ in range(KILL_ROUNDS):
            if all(member.identity in tried for member in (yield from self.look_closely())):
                break
            left = yield from self.freeze()
            for member in reversed(left):
                if _send(member.identity, KILL):
                    self.killed[member.identity] = member
            tried.update(member.identity for member in left)
            yield Ended(tuple(member.identity for member in left), KILL_WAIT_SECONDS)
            if self.leader:
                children.exit_code(self.leader)
        survivors = yield from self.look_closely()
        for member in survivors:
            self.killed.pop(member.identity, None)
        return survivors

    def freeze(self) -> Steps[tuple[WorkerProcess, ...]]:
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

        while True:
            members = self.look(walk_with(self.generation, freeze))
            new = [member.identity for member in members if member.identity not in before]
            if (not new and quiet) or time.monotonic() >= deadline:
                return members
            for identity in new:
                freeze(identity)
            before.update(new)
            quiet = not new and all(member.state in _HELD for member in members)
            if not quiet:
                yield Ended((), FREEZE_STEP_SECONDS)

    def how(self, *, had_leader: bool) -> Ending:
        if not had_leader:
            return Ending.NOTHING
        survived = self.leader is not None and not state(self.leader).ended
        return Ending.KILLED if survived or self.leader in self.killed else Ending.GRACEFUL


def _send(identity: ProcessIdentity, number: int) -> bool:
    """Signal it; one that we may not signal stays where it is, and is named as a survivor in the end."""
    try:
        return send(identity, number)
    except PermissionError:
        return False
