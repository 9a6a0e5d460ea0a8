"""The scheduler: every chore deals with its rows when they are due. An APScheduler job checks all of them, and events
bring the next round forward. The ledger says what is due, so it holds across restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from supervisor_core.desk.approvals import Approvals
from supervisor_core.desk.slow_work import SlowWork, looked_at
from supervisor_core.domain.approvals import Approval, ApprovalState
from supervisor_core.domain.conditions import Sight
from supervisor_core.domain.errors import SupervisorError, describe
from supervisor_core.domain.host_conditions import Found
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.scheduling import SchedulerService
from supervisor_core.runtime.services import wait_until

if TYPE_CHECKING:  # importing APScheduler takes a while; only daemons need it
    from supervisor_core.adapters.ticking import Ticker

NAME = "scheduler"

CHECK = "check"
"""The loop of the APScheduler job, by its signs of life."""

SHORTEST_SECONDS = 0.05
WORK_SECONDS = 60.0
"""A round of one chore asks git or Slack at most, each of which has limits."""

RETRY_SECONDS = 1.0
"""After a failure nothing is tried again sooner, whatever is new."""

log = logging.getLogger(__name__)


class Chore(Protocol):
    """One kind of row that comes due."""

    name: str

    def due_at(self) -> datetime | None:
        """When its first row is due."""

    def work(self, now: datetime) -> bool:
        """Deal with what is due; whether commands were filed. It runs in a thread, and may be repeated at any time."""


class ApprovalsChore:
    """Approvals expire, are carried out, and end with their commands."""

    name = "approvals"

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._executions: SlowWork[Approval] = SlowWork("approval")

    def due_at(self) -> datetime | None:
        """When the first of them must be looked at."""
        return looked_at(self._approvals.due_at(), self._executions)

    def work(self, now: datetime) -> bool:
        """Everything that is due. One whose remote doesn't answer holds up no other."""
        self._approvals.settle(now)
        self._approvals.expire_due(now)
        ids = [approval.approval_id for approval in self._approvals.agreed(now)]
        ended = self._executions.run({each: partial(self._approvals.execute, each, now) for each in ids})
        return any(each.state is ApprovalState.EXECUTING for each in ended)


@dataclass(eq=False, slots=True)
class _Lane:
    """One chore. No other waits for it: carrying out what was approved may ask git and Slack, and take its time."""

    chore: Chore
    again: bool = False
    """Whether it must look once more when its round ends."""
    round: asyncio.Task[None] | None = None
    due_at: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Round:
    """The result of one round of a chore."""

    due_at: datetime | None = None
    filed: bool = False
    problem: str = ""


class Scheduler(SchedulerService):
    """Every `alerts.check_seconds` an APScheduler job checks conditions and runs a round of all chores. Between two
    checks a commit, a look at the workers or the moment at which a row is due starts a round; nothing else does.

    `filed` is called on the event loop when commands were filed, `look_again` has unwell workers looked at; `seeing`
    gets each look at workers, `observing` each at the host.
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
        look_again: Callable[[], None] = lambda: None,
        seeing: Callable[[Iterable[Sight]], None] = lambda _: None,
        observing: Callable[[Iterable[Found]], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._lanes = tuple(_Lane(chore) for chore in chores)
        self.ticker = ticker
        self._filed = filed
        self._look_again = look_again
        self._seeing = seeing
        self._observing = observing
        self._stopping: asyncio.Event | None = None
        self._broken: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Start a round of all chores; on the event loop."""
        for lane in self._lanes:
            self._begin(lane)

    def see(self, sights: Iterable[Sight]) -> None:
        """Workers were just looked at; to be called on the event loop."""
        self._seeing(sights)
        self.wake()

    def observe(self, seen: Iterable[Found]) -> None:
        """Parts of the host were just looked at; to be called on the event loop."""
        self._observing(seen)
        self.wake()

    def problem(self) -> str:
        """What can't be dealt with."""
        return "; ".join(lane.problem for lane in self._lanes if lane.problem)

    async def run(self, stopping: asyncio.Event) -> None:
        """Let the job and the events start rounds until asked to stop. A round that is under way ends first."""
        loop = asyncio.get_running_loop()
        self._stopping, self._broken = stopping, (broken := loop.create_future())
        self.pulse.beat(self.ticker.seconds, CHECK)
        for lane in self._lanes:
            lane.due_at = None  # nothing is planned yet
        try:
            with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake)), self.ticker.ticking(self.check):
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
        """The APScheduler job: run a round of all chores, and have those looked at that are unwell."""
        self.pulse.beat(self.ticker.seconds, CHECK)
        self.wake()
        self._look_again()
        await self._rounds()

    async def _rounds(self) -> None:
        """Wait for all rounds that are under way."""
        under_way = [lane.round for lane in self._lanes if lane.round is not None]
        if under_way:
            await asyncio.wait(under_way)

    def _begin(self, lane: _Lane) -> None:
        """Start a round of this chore, or have the one that is under way repeated."""
        lane.again = True
        stopping = self._stopping
        if stopping is not None and not stopping.is_set() and (lane.round is None or lane.round.done()):
            lane.round = asyncio.create_task(self._follow(lane, stopping), name=f"scheduler {lane.chore.name}")
            lane.round.add_done_callback(self._ended)

    def _ended(self, round_: asyncio.Task[None]) -> None:
        """What isn't a chore's failure is one of the service."""
        error = None if round_.cancelled() else round_.exception()
        if error is not None and self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _follow(self, lane: _Lane, stopping: asyncio.Event) -> None:
        while lane.again and not stopping.is_set():
            lane.again = False
            self.pulse.beat(WORK_SECONDS, lane.chore.name)
            done = await self._blocking(_round, lane)
            self.pulse.rest(lane.chore.name)
            _notice(lane, done.problem)
            if done.filed:
                self._filed()
            self._plan(lane, done.due_at)
            if done.problem:
                await wait_until(None, stopping, RETRY_SECONDS)

    def _plan(self, lane: _Lane, due_at: datetime | None) -> None:
        """Have the next round start when a row is due."""
        soonest = datetime.now(UTC) + timedelta(seconds=SHORTEST_SECONDS)
        if due_at is not None and due_at < soonest:
            due_at = soonest
        elif due_at == lane.due_at:
            return
        lane.due_at = due_at
        self.ticker.at(lane.chore.name, due_at, partial(self._is_due, lane))

    def _is_due(self, lane: _Lane) -> None:
        lane.due_at = None
        self._begin(lane)


def _round(lane: _Lane) -> _Round:
    """Have a chore do what is due; in a thread."""
    chore = lane.chore
    try:
        filed = chore.work(datetime.now(UTC))
        return _Round(chore.due_at(), filed)
    except Exception as error:  # the edge: a chore that fails is tried again, and keeps no other from its work
        known = isinstance(error, SupervisorError)
        words = describe(error)
        if not known and words not in lane.problem:
            log.exception("%s can't be dealt with", chore.name)
        return _Round(problem=f"{chore.name}: {words}")


def _notice(lane: _Lane, problem: str) -> None:
    """Log a change, not a state."""
    if problem and problem != lane.problem:
        log.error("the scheduler goes on with what it can: %s", problem)
    elif lane.problem and not problem:
        log.info("the scheduler works again")
    lane.problem = problem
