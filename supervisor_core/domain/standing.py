"""Where a worker's life stands, as one machine: what was seen of it, what is in hand, and what it waits for.

    stopped ─ begin start ─→ starting ─ done ─→ running ─ begin stop ─→ stopping ─ done ─→ stopped
    running ─ ended by itself ─→ stopped ─ wait ─→ backing off ─ begin start ─→ starting
    stopped ─ give up ─→ quarantined ─ release ─→ stopped            stopping ─ done, something is left ─→ stuck

What was seen last is the truth about its processes; what is in hand stands before it, and only what rests can wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.restarts import Decision, Next

SEEN = frozenset({WorkerState.STOPPED, WorkerState.RUNNING, WorkerState.STUCK})
"""What a look at processes can show."""


class IllegalMove(SupervisorError):
    """That can't be done from where the worker stands."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One worker. A move gives the next value, or raises `IllegalMove` and changes nothing."""

    seen: WorkerState = WorkerState.STOPPED
    in_hand: str = ""
    """What is being done about it, in a word; never two things at a time."""
    moving: WorkerState | None = None
    """What that does to it: it is starting or stopping; None where it leaves the processes alone."""
    waits: Decision | None = None
    """For what it waits, or why it rests, after it ended by itself."""
    quarantined: bool = False

    @property
    def state(self) -> WorkerState:
        """The one word for it."""
        if self.moving is not None:
            return self.moving
        if self.seen is not WorkerState.STOPPED:
            return self.seen
        if self.quarantined:
            return WorkerState.QUARANTINED
        backs_off = self.waits is not None and self.waits.what is Next.WAIT
        return WorkerState.BACKING_OFF if backs_off else WorkerState.STOPPED

    @property
    def rests(self) -> bool:
        """Whether it ended by itself and its policy leaves it so."""
        return self.waits is not None and self.waits.what is Next.REST

    def begin(self, what: str, moving: WorkerState | None = None) -> Standing:
        """Take something in hand. What it waited for is over with a start or a stop."""
        if self.in_hand:
            raise IllegalMove(f"{what} can't begin: {self.in_hand} is under way.")
        if not what or moving not in (None, WorkerState.STARTING, WorkerState.STOPPING):
            raise IllegalMove(f"what begins is named, and starts or stops the worker, or neither; not {moving}")
        return replace(self, in_hand=what, moving=moving, waits=None if moving else self.waits)

    def done(self, seen: WorkerState, *, quarantined: bool | None = None) -> Standing:
        """What was in hand is over, and this is what a fresh look shows."""
        if not self.in_hand:
            raise IllegalMove("nothing was in hand that could be over")
        still = self.quarantined if quarantined is None else quarantined
        return replace(self, in_hand="", moving=None, quarantined=still).see(seen)

    def see(self, seen: WorkerState, *, anew: bool = False) -> Standing:
        """A look has shown it. While something is in hand, a look shows only how far that is. One that stays stopped
        waits on, unless it is to be thought about `anew`."""
        if seen not in SEEN:
            raise IllegalMove(f"nobody can see that a worker is {seen}")
        return replace(self, seen=seen, waits=self.waits if seen is WorkerState.STOPPED and not anew else None)

    def wait(self, decision: Decision) -> Standing:
        """It ended by itself, and this was decided: it waits for its next start, or rests."""
        self._must_be_stopped(f"wait ({decision.what})")
        if decision.what not in (Next.WAIT, Next.REST):
            raise IllegalMove(f"{decision.what} is nothing to wait for")
        return replace(self, waits=decision)

    def give_up(self) -> Standing:
        """It is not started by itself any more, until a person says so. One that runs may go on."""
        if self.in_hand:
            raise IllegalMove(f"it can't be quarantined: {self.in_hand} is under way")
        return replace(self, quarantined=True, waits=None)

    def release(self) -> Standing:
        """A person has ended its quarantine."""
        return replace(self, quarantined=False)

    def _must_be_stopped(self, what: str) -> None:
        if self.in_hand or self.seen is not WorkerState.STOPPED:
            raise IllegalMove(f"{what} is for a worker that is stopped, and this one is {self.state}")
