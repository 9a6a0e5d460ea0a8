"""The scheduler: each chore handles its rows when they are due.

One APScheduler job checks all chores at a fixed interval, and events bring the next round forward. Jobs are in memory;
the ledger says what is due, so a restart loses nothing. Importing APScheduler is slow: only daemons import this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from supervisor_core.code.watch.rules import WatchedWorker
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import TargetReading
from supervisor_core.workers.status import WorkerStatus


class SchedulerService(Service, ABC):
    """The service that deals with what comes due."""

    @abstractmethod
    def wake(self) -> None:
        """Another program has written something: look now."""

    @abstractmethod
    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Workers were just looked at; to be called on the event loop, and at once."""

    @abstractmethod
    def observe(self, seen: Iterable[TargetReading]) -> None:
        """Parts of the host were just looked at; to be called on the event loop."""


@dataclass(frozen=True, slots=True)
class SchedulerDoors:
    """What the scheduler is given of the daemon."""

    blocking: Blocking
    filed: Callable[[], None]
    """To be called when commands have been filed."""
    look: Callable[[Collection[str]], Mapping[str, WatchedWorker]]
    """How these workers are right now; it blocks."""
    resting: Callable[[], bool] = lambda: False
    """Whether monitoring is paused."""
    look_again: Callable[[], None] = lambda: None
    """Have unwell workers looked at: to be called on the event loop, at each check."""


MakeScheduler = Callable[[SchedulerDoors], SchedulerService]

T = TypeVar("T")

MOMENT_SECONDS = 2.0
"""A chore waits so long for the pieces that it has just begun: most end within it. It never waits for older ones."""

LOOK = timedelta(seconds=0.25)
"""Between two looks for the end of the older ones."""

AT_ONCE = 16


class SlowWork(Generic[T]):
    """Runs pieces of work concurrently, each key once at a time. Used by one thread."""

    def __init__(self, name: str) -> None:
        self._threads = DaemonThreads(name, AT_ONCE)
        self._under_way: dict[Hashable, Future[T]] = {}

    @property
    def under_way(self) -> bool:
        """Whether something was begun whose end was not looked at."""
        return bool(self._under_way)

    def run(self, pieces: dict[Hashable, Callable[[], T]]) -> list[T]:
        """Begin those that are not under way; the results of all that have ended, a moment later."""
        new = {key: self._threads.submit(work) for key, work in pieces.items() if key not in self._under_way}
        self._under_way.update(new)
        wait(new.values(), timeout=MOMENT_SECONDS)
        ended = [key for key, future in self._under_way.items() if future.done()]
        return [self._under_way.pop(key).result() for key in ended]


def looked_at(due_at: datetime | None, work: SlowWork[T]) -> datetime | None:
    """When a chore looks again: at what is due, and for the end of what is under way, which is due all the time."""
    return datetime.now(UTC) + LOOK if work.under_way else due_at


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
        seeing: Callable[[Iterable[WorkerStatus]], None] = lambda _: None,
        observing: Callable[[Iterable[TargetReading]], None] = lambda _: None,
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

    def see(self, statuses: Iterable[WorkerStatus]) -> None:
        """Workers were just looked at; to be called on the event loop."""
        self._seeing(statuses)
        self.wake()

    def observe(self, seen: Iterable[TargetReading]) -> None:
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
            log.exception("%s failed", chore.name)
        return _Round(problem=f"{chore.name}: {words}")


def _notice(lane: _Lane, problem: str) -> None:
    """Log a change, not a state."""
    if problem and problem != lane.problem:
        log.error("the scheduler continues with its other chores: %s", problem)
    elif lane.problem and not problem:
        log.info("the scheduler works again")
    lane.problem = problem


# At INFO it logs each run of each job.
logging.getLogger("apscheduler").setLevel(logging.WARNING)

PATIENCE = 0.9
"""The part of an interval that one check may take. After that the next one runs, whatever the last one waits for."""

CLOCK_JITTER = timedelta(seconds=1)

OPTIONS: dict[str, Any] = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
"""Runs that were missed become one, and a run is never dropped for being late."""


class Ticker:
    """Runs on the event loop on which `ticking` is entered."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.jobs: AsyncIOScheduler | None = None
        """APScheduler, while it runs."""

    @contextmanager
    def ticking(self, check: Callable[[], Awaitable[None]]) -> Iterator[None]:
        """Run this check at each interval. One that raises is logged, and one that hangs is cut off."""

        async def run() -> None:
            # APScheduler would log the cancellation with which it stops a running job as an error of the job.
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(self.seconds * PATIENCE):
                    await check()

        self.jobs = _Scheduler(self.seconds)
        self.jobs.add_job(run, "interval", seconds=self.seconds, id=CHECK, **OPTIONS)
        self.jobs.start()
        try:
            yield
        finally:
            self.jobs.shutdown(wait=False)
            self.jobs = None

    def at(self, name: str, moment: datetime | None, call: Callable[[], None]) -> None:
        """Call this once at that moment, instead of what was planned under this name; None: plan nothing."""
        if self.jobs is None:
            return

        async def run() -> None:  # a plain function would run in a thread
            call()

        if moment is not None:
            self.jobs.add_job(run, "date", run_date=moment, id=f"due {name}", replace_existing=True, **OPTIONS)
        elif self.jobs.get_job(f"due {name}") is not None:
            self.jobs.remove_job(f"due {name}")


class _Scheduler(AsyncIOScheduler):  # type: ignore[misc]  # APScheduler carries no types
    """Goes on checking when the wall clock is set back. APScheduler alone waits until it shows the old time again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timezone=UTC)
        self._interval = timedelta(seconds=seconds)

    def wakeup(self) -> None:
        """Look which jobs are due."""
        job, soon = self.get_job(CHECK), datetime.now(UTC) + self._interval
        if job is not None and job.next_run_time is not None and job.next_run_time > soon + CLOCK_JITTER:
            job.modify(next_run_time=soon)
        super().wakeup()
