"""The scheduler: sleeps until the earliest row is due, whatever kind of row it is, and then has it dealt with. What is
due is in the ledger, so it holds across restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from supervisor_core.adapters.ticking import Ticker
from supervisor_core.desk.approvals import Approvals
from supervisor_core.desk.slow_work import SlowWork, looked_at
from supervisor_core.domain.approvals import Approval, ApprovalState
from supervisor_core.domain.conditions import Sight
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.host_conditions import Found
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.services import Pulse

NAME = "scheduler"

TICK_SECONDS = 5.0
"""The longest sleep: for what other programs wrote (a shell, a pass), and for a wall clock that was set."""

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
    """One chore, for which no other waits: carrying out what was agreed to may ask git and Slack, and take its time."""

    chore: Chore
    woken: asyncio.Event
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Round:
    """What one look at a chore came to."""

    due_at: datetime | None = None
    filed: bool = False
    problem: str = ""


class Scheduler:
    """Woken by the commits of this program that people are told of, by looks at the workers, and by a tick; no chore
    keeps another from its work, or has it wait. `filed` is called on the event loop when commands were filed;
    `seeing` is told of each look at workers, and `observing` of each at the host."""

    name = NAME

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        chores: Sequence[Chore],
        filed: Callable[[], None] = lambda: None,
        *,
        seeing: Callable[[Iterable[Sight]], None] = lambda _: None,
        observing: Callable[[Iterable[Found]], None] = lambda _: None,
        ticker: Ticker | None = None,
    ) -> None:
        self.pulse = Pulse()
        self._ledger = ledger
        self._blocking = blocking
        self._lanes = tuple(_Lane(chore, asyncio.Event()) for chore in chores)
        self._filed = filed
        self._seeing = seeing
        self._observing = observing
        self._ticker = ticker

    def wake(self) -> None:
        """Look now; to be called on the event loop."""
        for lane in self._lanes:
            lane.woken.set()

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

    async def initialise(self) -> None:
        """Nothing: what is due is in the ledger."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Deal with what is due, sleep until the next; until asked to stop."""
        loop = asyncio.get_running_loop()
        stop = asyncio.ensure_future(stopping.wait())
        stop.add_done_callback(lambda _: self.wake())
        try:
            with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake)), self._ticking():
                async with asyncio.TaskGroup() as lanes:
                    for lane in self._lanes:
                        lanes.create_task(self._follow(lane, stopping, stop), name=f"scheduler {lane.chore.name}")
        finally:
            stop.cancel()

    async def shut_down(self) -> None:
        """A round that is under way ends with what it has in hand: each of its moves is a transaction."""

    def _ticking(self) -> AbstractContextManager[object]:
        return self._ticker.ticking(self.wake) if self._ticker else contextlib.nullcontext()

    async def _follow(self, lane: _Lane, stopping: asyncio.Event, stop: asyncio.Future[Any]) -> None:
        while not stopping.is_set():
            lane.woken.clear()
            self.pulse.beat(WORK_SECONDS, lane.chore.name)
            done = await self._blocking(self._round, lane)
            self.pulse.beat(TICK_SECONDS, lane.chore.name)
            _notice(lane, done.problem)
            if done.filed:
                self._filed()
            await _sleep(lane, stop, done.due_at)

    def _round(self, lane: _Lane) -> _Round:
        chore = lane.chore
        try:
            filed = chore.work(datetime.now(UTC))
            return _Round(chore.due_at(), filed)
        except Exception as error:  # the edge: a chore that fails is tried again, and keeps no other from its work
            known = isinstance(error, SupervisorError)
            words = str(error) if known else f"{type(error).__name__}: {error}"
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


async def _sleep(lane: _Lane, stop: asyncio.Future[Any], due_at: datetime | None) -> None:
    """Until something is due or new."""
    if lane.problem:
        await asyncio.wait({stop}, timeout=RETRY_SECONDS)
    left = (due_at - datetime.now(UTC)).total_seconds() if due_at else TICK_SECONDS
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(min(max(left, SHORTEST_SECONDS), TICK_SECONDS)):
            await lane.woken.wait()
