"""The scheduler: one loop that sleeps until the earliest row is due, whatever kind of row it is, and then has it dealt
with. What is due is in the ledger, so it holds across restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from supervisor_core.desk.approvals import Approvals
from supervisor_core.domain.approvals import ApprovalState
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.blocking import Blocking

NAME = "scheduler"

TICK_SECONDS = 5.0
"""The longest sleep: for what other programs wrote (a shell, a pass), and for a wall clock that was set."""

SHORTEST_SECONDS = 0.05
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

    def due_at(self) -> datetime | None:
        """When the first of them must be looked at."""
        return self._approvals.due_at()

    def work(self, now: datetime) -> bool:
        """Everything that is due."""
        self._approvals.settle(now)
        self._approvals.expire_due(now)
        return any(each.state is ApprovalState.EXECUTING for each in self._approvals.carry_on(now))


@dataclass(frozen=True, slots=True)
class _Round:
    """What one look at all chores came to."""

    due_at: datetime | None = None
    filed: bool = False
    problem: str = ""


class Scheduler:
    """Woken by the commits of this program that people are told of, and by a tick; no chore keeps another from its
    work. `filed` is called on the event loop when commands were filed."""

    name = NAME

    def __init__(
        self, ledger: Ledger, blocking: Blocking, chores: Sequence[Chore], filed: Callable[[], None] = lambda: None
    ) -> None:
        self._ledger = ledger
        self._blocking = blocking
        self._chores = tuple(chores)
        self._filed = filed
        self._woken = asyncio.Event()
        self._problem = ""

    def wake(self) -> None:
        """Look now; to be called on the event loop."""
        self._woken.set()

    def problem(self) -> str:
        """What can't be dealt with."""
        return self._problem

    async def initialise(self) -> None:
        """Nothing: what is due is in the ledger."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Deal with what is due, sleep until the next; until asked to stop."""
        loop = asyncio.get_running_loop()
        stop = asyncio.ensure_future(stopping.wait())
        stop.add_done_callback(lambda _: self.wake())
        try:
            with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake)):
                while not stopping.is_set():
                    self._woken.clear()
                    done = await self._blocking(self._round)
                    self._notice(done.problem)
                    if done.filed:
                        self._filed()
                    await self._sleep(stop, done.due_at)
        finally:
            stop.cancel()

    async def shut_down(self) -> None:
        """A round that is under way ends with what it has in hand: each of its moves is a transaction."""

    def _round(self) -> _Round:
        now, filed, problems, dues = datetime.now(UTC), False, [], []
        for chore in self._chores:
            try:
                filed = chore.work(now) or filed
                due = chore.due_at()
            except Exception as error:  # the edge: a chore that fails keeps no other from its work
                known = isinstance(error, SupervisorError)
                words = str(error) if known else f"{type(error).__name__}: {error}"
                if not known and words not in self._problem:
                    log.exception("%s can't be dealt with", chore.name)
                problems.append(f"{chore.name}: {words}")
            else:
                dues += [due] if due else []
        return _Round(min(dues, default=None), filed, "; ".join(problems))

    def _notice(self, problem: str) -> None:
        """Log a change, not a state."""
        if problem and problem != self._problem:
            log.error("the scheduler goes on with what it can: %s", problem)
        elif self._problem and not problem:
            log.info("the scheduler works again")
        self._problem = problem

    async def _sleep(self, stop: asyncio.Future[Any], due_at: datetime | None) -> None:
        """Until something is due or new."""
        if self._problem:
            await asyncio.wait({stop}, timeout=RETRY_SECONDS)
        left = (due_at - datetime.now(UTC)).total_seconds() if due_at else TICK_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(max(left, SHORTEST_SECONDS), TICK_SECONDS)):
                await self._woken.wait()
