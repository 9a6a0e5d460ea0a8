"""The calls of all actors: those of the same moment share one thread, one query and one scan.

`pause all` of a hundred workers is one read of the queue and one group of jobs, and not a hundred threads. A worker
alone is a group of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from supervisor_core.commands.command import Outcome
from supervisor_core.common.events import EventType
from supervisor_core.common.service import Blocking, Grouped
from supervisor_core.daemon.execution import RetryLimit, execute, runs_together
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import one_scan
from supervisor_core.processes.together import Result, Steps, together
from supervisor_core.workers.context import DaemonContext


@dataclass(frozen=True, slots=True)
class Execution:
    """A job to execute, with the arguments of `execute`."""

    job: Job
    on_trouble: Callable[[str], None]
    limit: RetryLimit
    progressed: Callable[[Job], object]
    """Called on the event loop."""
    overtaken: Callable[[], str]


class Turn(NamedTuple):
    """A worker's turn: its next job, only of one `handler` if that's named."""

    worker_id: str
    handler: str = ""


class TurnResult(NamedTuple):
    """The next job, or whether one of another handler waits."""

    job: Job | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of an actor, all on the event loop."""

    finished: Callable[[Job], None]
    """After each command."""
    next_turn: Callable[[Collection[str]], None]
    """After a command that goes from worker to worker, with those whose turn has come."""
    progressed: Callable[[Job], None]
    """After each step that a handler reports."""
    plan_again: Callable[[str], None]
    """A new plan is needed for this worker, now."""
    settled: Callable[[str, str], None]
    """A planned action has ended, so an observation counts again; with the error where it failed."""
    changed: Callable[[str], None]
    """Its lifecycle has changed."""
    publish: Callable[[EventType, str, Mapping[str, Any]], None]
    resting: Callable[[], bool] = lambda: False
    """Monitoring is paused, so no planned action begins."""


class GroupCalls:
    """The calls of the actors of one reconciler."""

    def __init__(self, parts: DaemonContext, blocking: Blocking) -> None:
        self._parts = parts
        self.blocking = blocking
        self.next_turn: Grouped[Turn, TurnResult] = Grouped(blocking, self._next_turns)
        self.call: Grouped[Callable[[], Any], Any] = Grouped(blocking, _called)
        """The result of a short call, such as a look at a worker."""
        self.work: Grouped[Steps[Any], Any] = Grouped(blocking, together)
        """The result of a work that waits for nothing slow of one worker, such as the decision about a start."""
        self._execute: Grouped[Execution, Outcome | None] = Grouped(blocking, self._executed)

    async def execute(self, of: Execution) -> Outcome | None:
        """Execute a job; together with others if its handler allows that."""
        loop = asyncio.get_running_loop()
        execution = replace(of, progressed=lambda job: loop.call_soon_threadsafe(of.progressed, job))
        if runs_together(execution.job):
            return await self._execute(execution)
        return await self.blocking(lambda: execute(*self._arguments(execution)))

    def _next_turns(self, turns: Sequence[Turn]) -> Iterator[list[Result]]:
        worker_ids, parallel = [turn.worker_id for turn in turns], self._parts.host.config.supervisor.parallel
        found = self._parts.ledger.read(partial(jobs.next_jobs, worker_ids=worker_ids, parallel=parallel))
        yield [Result(place, _result_of(*each)) for place, each in enumerate(zip(turns, found, strict=True))]

    def _executed(self, executions: Sequence[Execution]) -> Iterator[list[Result]]:
        return together([execute.steps(*self._arguments(each)) for each in executions])

    def _arguments(self, of: Execution) -> tuple[Any, ...]:
        def overtaken() -> str:
            return "the daemon is stopping" if of.limit.should_stop() else of.overtaken()

        host = replace(self._parts.host, overtaken=overtaken)
        return of.job, host, self._parts.ledger, of.on_trouble, of.limit, of.progressed


def _result_of(turn: Turn, job: Job | None) -> TurnResult:
    fits = job is not None and turn.handler in ("", job.handler)
    return TurnResult(job if fits else None, waits=job is not None)


def _called(calls: Sequence[Callable[[], Any]]) -> Iterator[list[Result]]:
    with one_scan():
        for place, call in enumerate(calls):
            try:
                result = Result(place, call())
            except Exception as error:  # noqa: BLE001 (the caller's)
                result = Result(place, error=error)
            yield [result]
