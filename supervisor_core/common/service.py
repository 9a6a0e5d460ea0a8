"""Services of a daemon: each runs on its own, reports its health, and is restarted with back-off when it fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import to_text

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 60.0
STEADY_SECONDS = 60.0
"""After running for so long, a service starts with the first retry delay again."""

CANCEL_SECONDS = 2.0
"""The time that a cancelled service has to release its resources."""

PATIENCE_SECONDS = 60.0
"""A beat that comes so much later than announced is late: the longest that a loop's own work takes on a slow drive."""

BEAT_SECONDS = 30.0
"""The longest wait of a loop between two beats."""


RUNNING = "running"
"""The reason of a service that simply runs."""


class ServiceState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    ERROR = "error"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """A service as `status` shows it."""

    name: str
    state: ServiceState
    health: str = "unknown"
    reason: str = ""
    last_health_at: datetime | None = None
    last_error: str | None = None
    late: bool = False
    """True if it is unresponsive."""

    @property
    def trouble(self) -> str:
        """The problem in words; empty for a healthy service."""
        if self.state is ServiceState.ERROR:
            return self.last_error or self.reason
        return self.reason if self.health == "degraded" else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": str(self.state),
            "health": self.health,
            "reason": self.reason,
            "last_health_at": to_text(self.last_health_at) if self.last_health_at else None,
            "last_error": self.last_error,
        }


async def wait_until(
    woken: asyncio.Event | asyncio.Future[Any] | None, stopping: asyncio.Event, seconds: float | None = None
) -> bool:
    """Wait until `woken` is set or done, until asked to stop, or for so many seconds; return whether asked to stop.

    An unfinished future continues. A cancellation always gets through, which `asyncio.wait_for` doesn't promise.
    """
    events = [asyncio.ensure_future(event.wait()) for event in (stopping, woken) if isinstance(event, asyncio.Event)]
    futures = [woken] if isinstance(woken, asyncio.Future) else []
    try:
        await asyncio.wait([*events, *futures], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for event in events:
            event.cancel()
        await asyncio.wait(events)
    return stopping.is_set()


class Pulse:
    """The liveness of one service. Each of its loops beats at every turn and announces the next beat.

    A hanging loop misses its announced beat, so nothing else has to detect it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beats: dict[str, tuple[float, datetime, float]] = {}
        """The last beat of each loop, by the clock and for people, and the latest time of the next one."""

    def begin(self) -> None:
        """Forget the loops of the last run."""
        self._beats = {}
        self.beat()

    def beat(self, within: float = 0.0, loop: str = "") -> None:
        """Announce the next beat of this loop, within so many seconds plus patience."""
        now = self._clock()
        self._beats[loop] = now, datetime.now(UTC), now + within + PATIENCE_SECONDS
        if loop:
            self._beats.pop("", None)  # the beat of the start

    def rest(self, loop: str = "") -> None:
        """Stop expecting beats of this loop: it ended or waits without a limit."""
        self._beats.pop(loop, None)

    @property
    def last(self) -> datetime | None:
        """The oldest of the loops' last beats; None if none is expected."""
        return min((beat_at for _, beat_at, _ in list(self._beats.values())), default=None)

    def late(self) -> str:
        """Describe the overdue loops; empty if there are none."""
        now = self._clock()
        return "; ".join(
            f"{f'{loop}: ' if loop else ''}unresponsive for {now - at:.0f} s, since {beat_at:%H:%M:%S} UTC"
            for loop, (at, beat_at, due) in list(self._beats.items())  # a loop may beat in another thread meanwhile
            if now > due
        )


class Service:
    """The base of what the daemon runs. A service has a name and a `run`; everything else has a default."""

    name: str

    def __init__(self) -> None:
        self.pulse = Pulse()
        self._background: tuple[asyncio.Event, asyncio.Task[None]] | None = None

    async def start(self) -> None:
        """Run in the background until `stop`, without a registry that restarts it."""
        if self._background is None:
            self.pulse.begin()
            await self.initialise()
            stopping = asyncio.Event()
            self._background = stopping, asyncio.create_task(self.run(stopping), name=self.name)

    async def reach(self, event: asyncio.Event) -> None:
        """Wait until the background run sets this event; raise the error if it ended first."""
        if self._background is not None:
            _, task = self._background
            task.add_done_callback(lambda _: event.set())
            await event.wait()
            if task.done():
                await task

    async def stop(self) -> None:
        """End what `start` began; raise the error that it ended with."""
        background, self._background = self._background, None
        if background is not None:
            stopping, task = background
            stopping.set()
            try:
                await task
            finally:
                await self.shut_down()

    async def initialise(self) -> None:
        """Get ready; an error here fails the service."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Do the work until `stopping` is set; an error here fails the service. Each loop beats at every turn."""
        raise NotImplementedError

    async def shut_down(self) -> None:
        """Release everything; called after `run`, however that ended."""

    def problem(self) -> str:
        """The reason why it can't work right now; empty while it can."""
        return ""

    def notice(self) -> str:
        """A limitation that is no failure, such as a usual port that another program has; empty without one."""
        return ""


class ServiceRunner:
    """Keeps one service running and reports its state."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._report = ServiceReport(service.name, ServiceState.STARTING)
        self._cut_off = False
        self.ready = asyncio.Event()

    def report(self) -> ServiceReport:
        if self._report.state not in (ServiceState.STARTING, ServiceState.RUNNING):
            return self._report
        running, late = self._report.state is ServiceState.RUNNING, self.service.pulse.late()
        problem = self.service.problem() if running else ""
        if not running and not late:
            return self._report
        return replace(
            self._report,
            health="degraded" if problem or late else "healthy",
            reason="; ".join(filter(None, (late, problem))) or self.service.notice() or RUNNING,
            last_health_at=self.service.pulse.last,
            late=bool(late),
        )

    def cut_off(self, seconds: float) -> None:
        """Report for good that it didn't stop in time, whatever it still does."""
        self._cut_off = True
        reason = f"didn't stop within {seconds:.0f} s and was cancelled"
        self._fail(reason, "shutdown timeout")

    def _fail(self, reason: str, error: str) -> None:
        state = ServiceState.ERROR
        self._report = replace(self._report, state=state, health="degraded", reason=reason, last_error=error)

    async def keep(self, stopping: asyncio.Event) -> None:
        """Run the service until asked to stop, again and again if need be."""
        delay = FIRST_RETRY_SECONDS
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            started = loop.time()
            try:
                try:
                    self.service.pulse.begin()
                    await self.service.initialise()
                    self.service.pulse.begin()
                    self._report = replace(self._report, state=ServiceState.RUNNING)  # STARTING, ERROR -> RUNNING
                    self.ready.set()
                    await self.service.run(stopping)
                    if not stopping.is_set():
                        raise RuntimeError("the service ended unexpectedly")
                finally:
                    await self.service.shut_down()
            except Exception as error:  # the edge of a service: it fails alone
                message, expected = describe(error), isinstance(error, SupervisorError)
                about = LogEvent.SERVICE_FAILED.extra(service=self.service.name, error=message)
                log.error("service %s failed: %s", self.service.name, message, exc_info=not expected, extra=about)  # noqa: TRY400
                if loop.time() - started > STEADY_SECONDS:
                    delay = FIRST_RETRY_SECONDS
                self._fail(f"failed; retrying in {delay:.0f} s", message)  # STARTING, RUNNING -> ERROR
                self.ready.set()
                await wait_until(None, stopping, delay)
                delay = min(delay * 2, LONGEST_RETRY_SECONDS)
        if not self._cut_off:
            self._report = replace(self._report, state=ServiceState.STOPPED, health="unknown", reason="stopped")
        self.ready.set()  # also if it was asked to stop before it started


class ServiceRegistry:
    """All services of a daemon, disabled ones included."""

    def __init__(self, services: Sequence[Service], disabled: Sequence[tuple[str, str]] = ()) -> None:
        self._runners = [ServiceRunner(service) for service in services]
        self._disabled = [ServiceReport(name, ServiceState.DISABLED, reason=reason) for name, reason in disabled]
        self._tasks: dict[asyncio.Task[None], ServiceRunner] = {}

    async def start(self, stopping: asyncio.Event) -> None:
        """Start all, and return when each has run or failed once."""
        for runner in self._runners:
            self._tasks[asyncio.create_task(runner.keep(stopping), name=runner.service.name)] = runner
        await asyncio.gather(*(runner.ready.wait() for runner in self._runners))

    async def stop(self, bound_seconds: float) -> list[str]:
        """Wait for all services, which were asked to stop; return the names of those that didn't in time."""
        if not self._tasks:
            return []
        _, late = await asyncio.wait(self._tasks, timeout=bound_seconds)
        for task in late:
            log.error("service %s didn't stop within %.0f s and is cancelled", task.get_name(), bound_seconds)
            self._tasks[task].cut_off(bound_seconds)
            task.cancel()
        if late:  # one that hangs in its shutting down as well is left to the end of the program
            await asyncio.wait(late, timeout=CANCEL_SECONDS)
        return [task.get_name() for task in late]

    def reports(self) -> list[ServiceReport]:
        return [runner.report() for runner in self._runners] + self._disabled


def with_trouble(reports: Sequence[ServiceReport], trouble: LedgerUnavailable | None) -> list[ServiceReport]:
    """Add the ledger's problem: all services need the ledger, so no running one is healthy then."""
    if trouble is None:
        return list(reports)
    return [
        replace(report, health="degraded", reason=trouble.short, last_error=str(trouble))
        if report.state is ServiceState.RUNNING and report.health == "healthy"
        else report
        for report in reports
    ]


SPARE = 16
"""Beside one thread for each worker: the queue, the control socket, observations, the configuration, heartbeats, and
each kind of chore."""


class Blocking:
    """Runs blocking calls off the event loop. The limit must exceed the calls that can be slow at the same time."""

    def __init__(self, limit: int = SPARE, name: str = "blocking") -> None:
        self._threads = DaemonThreads(name, limit)

    async def __call__(self, work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 (whatever `work` takes)
        return await asyncio.wrap_future(self._threads.submit(work, *arguments))

    def widen(self, busy: int) -> None:
        """Have room for so many calls at the same time, beside the spare ones. It never gets narrower."""
        self._threads.widen(busy + SPARE)
