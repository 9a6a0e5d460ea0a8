"""The scheduler: each chore handles its rows when they are due.

Only APScheduler starts a round. One job checks all chores at a fixed interval; each chore has a job of its own, planned
for its next due row, and an event moves that job to now. Jobs are in memory; the ledger says what is due, so a restart
loses nothing. Importing APScheduler is slow: only daemons import this module.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Generic, Protocol, TypeVar

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.ticker import CHECK, Ticker
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import TargetReading
from supervisor_core.workers.status import WorkerStatus

T = TypeVar("T")

MOMENT_SECONDS = 2.0
"""Time that a chore waits for work that it has just started. It never waits for older work."""

LOOK = timedelta(seconds=0.25)
"""Interval between checks for the end of older work."""
AT_ONCE = 16


class SlowWork(Generic[T]):
    """Runs pieces of work concurrently, each key once at a time. Used by one thread."""

    def __init__(self, name: str) -> None:
        self._threads = DaemonThreads(name, AT_ONCE)
        self._under_way: dict[Hashable, Future[T]] = {}

    @property
    def under_way(self) -> bool:
        """True while some work has no known end."""
        return bool(self._under_way)

    def run(self, pieces: dict[Hashable, Callable[[], T]]) -> list[T]:
        """Start the work that isn't running; the results of all that has ended, a moment later."""
        new = {key: self._threads.submit(work) for key, work in pieces.items() if key not in self._under_way}
        self._under_way.update(new)
        wait(new.values(), timeout=MOMENT_SECONDS)
        ended = [key for key, future in self._under_way.items() if future.done()]
        return [self._under_way.pop(key).result() for key in ended]


def looked_at(due_at: datetime | None, work: SlowWork[T]) -> datetime | None:
    """The time of a chore's next round: the next due row, or soon while work is running."""
    return datetime.now(UTC) + LOOK if work.under_way else due_at


NAME = "scheduler"

SHORTEST_SECONDS = 0.05
WORK_SECONDS = 60.0
"""A round of one chore asks git or Slack at most, each of which has limits."""

SPACING_SECONDS = 0.1
"""Time between two rounds of a chore, except for alerts."""

FOLLOW_SECONDS, NEXT_FOLLOW_SECONDS = 0.05, 0.25
"""Time from a commit to the rounds that follow it, which leaves the way to the command that made it; and from those to
the next: a few rounds follow many commits."""

RETRY_SECONDS = 1.0
"""After a failure nothing is tried again sooner, whatever is new."""

log = logging.getLogger(__name__)


class Chore(Protocol):
    """A kind of row with due times."""

    name: str

    def due_at(self) -> datetime | None:
        """The time of its first due row."""

    def work(self, now: datetime) -> bool:
        """Handle the due rows; True if commands were filed. It runs in a thread and can be repeated at any time."""


class ApprovalsChore:
    """Expires approvals, runs them, and closes them with their commands."""

    name = "approvals"

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._executions: SlowWork[Approval] = SlowWork("approval")

    def due_at(self) -> datetime | None:
        """The time of the next check of any approval."""
        return looked_at(self._approvals.due_at(), self._executions)

    def work(self, now: datetime) -> bool:
        """Handle all due approvals. One with a remote that doesn't answer doesn't delay the others."""
        self._approvals.settle(now)
        self._approvals.expire_due(now)
        ids = [approval.approval_id for approval in self._approvals.agreed(now)]
        ended = self._executions.run({each: partial(self._approvals.execute, each, now) for each in ids})
        return any(each.state is ApprovalState.EXECUTING for each in ended)


@dataclass(eq=False, slots=True)
class _Lane:
    """A chore and its rounds. Chores don't wait for each other: an approval can take long for git and Slack."""

    chore: Chore
    restless: Callable[[], bool] | None = None
    """True if a check must run it although none of its rows is due; None for a chore that looks at rows alone."""
    again: bool = False
    """True if another round must follow this one."""
    round: asyncio.Task[None] | None = None
    due_at: datetime | None = None
    problem: str = ""


class Scheduler(Service):
    """Every `alerts.check_seconds` an APScheduler job checks conditions, and runs all chores if another program has
    written to the ledger. Between two checks a commit, a look at the workers or a due row advances a chore's own job.

    The chores in `restless` also decide about what they were told: they follow each look at workers and the host, and a
    check runs those whose value is true then. `filed` is called on the event loop when commands were filed,
    `look_again` to look at unhealthy workers; `seeing` gets each look at workers, `observing` each at the host.
    """

    name = NAME

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        chores: Sequence[Chore],
        ticker: Ticker,
        filed: Callable[[], None] = lambda: None,
        *,
        restless: Mapping[Chore, Callable[[], bool]] | None = None,
        look_again: Callable[[], None] = lambda: None,
        seeing: Callable[[Iterable[WorkerStatus]], None] = lambda _: None,
        observing: Callable[[Iterable[TargetReading]], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._lanes = tuple(_Lane(chore, (restless or {}).get(chore)) for chore in chores)
        self._ledger_at_check: object = None
        """The ledger's files as they were at the last check."""
        self.ticker = ticker
        self._filed = filed
        self._look_again = look_again
        self._seeing = seeing
        self._observing = observing
        self._stopping: asyncio.Event | None = None
        self._broken: asyncio.Future[None] | None = None
        self._followed_at = 0.0
        """The time, by the event loop, at which the rounds after a commit begin or began."""

    def wake(self) -> None:
        """Have all chores run now; on the event loop."""
        for lane in self._lanes:
            self._advance(lane)

    def _follow_commit(self) -> None:
        """Start a round of all chores soon, unless one is about to start."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._followed_at <= now:
            self._followed_at = max(now + FOLLOW_SECONDS, self._followed_at + NEXT_FOLLOW_SECONDS)
            loop.call_at(self._followed_at, self.wake)

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Workers were just looked at; to be called on the event loop, and at once."""
        self._seeing(statuses)
        self._wake_restless()

    def observe(self, seen: Iterable[TargetReading]) -> None:
        """Parts of the host were just looked at; to be called on the event loop."""
        self._observing(seen)
        self._wake_restless()

    def _wake_restless(self) -> None:
        for lane in self._lanes:
            if lane.restless is not None:
                self._advance(lane)

    def problem(self) -> str:
        """The reason for a chore's failure."""
        return "; ".join(lane.problem for lane in self._lanes if lane.problem)

    async def run(self, stopping: asyncio.Event) -> None:
        """Let the job and the events start rounds until asked to stop. A round that is under way ends first."""
        loop = asyncio.get_running_loop()
        self._stopping, self._broken = stopping, (broken := loop.create_future())
        self.pulse.beat(self.ticker.seconds, CHECK)
        for lane in self._lanes:
            lane.due_at = None  # nothing is planned yet
        try:
            told = self._ledger.listening(lambda: loop.call_soon_threadsafe(self._follow_commit))
            rounds = {lane.chore.name: partial(self._begin, lane) for lane in self._lanes}
            with told, self.ticker.ticking(self.check, rounds):
                self.wake()
                await wait_until(broken, stopping)
            if not broken.done():
                await self._rounds()
            if broken.done():
                broken.result()
        finally:
            self._stopping = None
            for lane in self._lanes:
                if lane.round is not None:
                    lane.round.cancel()

    async def check(self) -> None:
        """The APScheduler job: run the chores that may have something to do, and observe unhealthy workers."""
        self.pulse.beat(self.ticker.seconds, CHECK)
        before, self._ledger_at_check = self._ledger_at_check, await self._blocking(self._ledger.files_state)
        for lane in self._lanes:
            if lane.problem or before != self._ledger_at_check or (lane.restless and lane.restless()):
                self._begin(lane)
        self._look_again()
        await self._rounds()

    async def _rounds(self) -> None:
        """Wait for all rounds that are under way."""
        under_way = [lane.round for lane in self._lanes if lane.round is not None]
        if under_way:
            await asyncio.wait(under_way)

    def _advance(self, lane: _Lane) -> None:
        """Move this chore's job to now; while its round is under way, have that repeated."""
        lane.again = True
        if lane.round is None or lane.round.done():
            self._plan_at(lane, datetime.now(UTC))

    def _plan_at(self, lane: _Lane, moment: datetime | None) -> None:
        lane.due_at = moment
        self.ticker.at(lane.chore.name, moment)

    def _begin(self, lane: _Lane) -> None:
        """Start a round of this chore, or repeat the current one. Called by APScheduler's jobs alone."""
        lane.again, lane.due_at = True, None
        stopping = self._stopping
        if stopping is not None and not stopping.is_set() and (lane.round is None or lane.round.done()):
            lane.round = asyncio.create_task(self._follow(lane, stopping), name=f"scheduler {lane.chore.name}")
            lane.round.add_done_callback(self._ended)

    def _ended(self, round_: asyncio.Task[None]) -> None:
        """Report the end of a round. An unexpected error fails the service."""
        error = None if round_.cancelled() else round_.exception()
        if error is not None and self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _follow(self, lane: _Lane, stopping: asyncio.Event) -> None:
        while lane.again and not stopping.is_set():
            lane.again = False
            self.pulse.beat(WORK_SECONDS, lane.chore.name)
            due_at, filed, problem = await self._blocking(_work, lane)
            self.pulse.rest(lane.chore.name)
            if problem and problem != lane.problem:
                log.error("the scheduler continues with its other chores: %s", problem)
            elif lane.problem and not problem:
                log.info("the scheduler works again")
            lane.problem = problem
            if filed:
                self._filed()
            soonest = datetime.now(UTC) + timedelta(seconds=SHORTEST_SECONDS)
            if due_at is not None and due_at < soonest:
                self._plan_at(lane, soonest)
            elif due_at != lane.due_at:
                self._plan_at(lane, due_at)
            if problem or (lane.again and lane.restless is None):
                await wait_until(None, stopping, RETRY_SECONDS if problem else SPACING_SECONDS)


def _work(lane: _Lane) -> tuple[datetime | None, bool, str]:
    """One round of a chore: the time of the next one, whether commands were filed, and why it failed."""
    chore = lane.chore
    try:
        filed = chore.work(datetime.now(UTC))
        return chore.due_at(), filed, ""
    except Exception as error:  # the edge: a chore that fails is tried again, and keeps no other from its work
        words = describe(error)
        if not isinstance(error, SupervisorError) and words not in lane.problem:
            log.exception("%s failed", chore.name)
        return None, False, f"{chore.name}: {words}"


MakeScheduler = Callable[..., Scheduler]
"""`build_scheduler` for the parts and approvals of a daemon."""
