"""Services of a daemon: each runs on its own, reports its health, and is restarted with back-off when it fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import to_text

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 60.0
STEADY_SECONDS = 60.0
"""After running for so long, a service starts with the first retry delay again."""

CANCEL_SECONDS = 2.0
"""The time that a cancelled service has to release its resources."""

PATIENCE_SECONDS = 60.0
"""A beat that comes so much later than announced is late: the longest that a loop's own work takes on a slow drive."""

BEAT_SECONDS = 30.0
"""The longest wait of a loop between two beats."""

SHUTDOWN_TIMEOUT = "shutdown timeout"
"""The error of a service that had to be cut off."""


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
        """For `status --json`."""
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
    events = [asyncio.ensure_future(each.wait()) for each in (stopping, woken) if isinstance(each, asyncio.Event)]
    futures = [woken] if isinstance(woken, asyncio.Future) else []
    try:
        await asyncio.wait([*events, *futures], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in events:
            each.cancel()
        await asyncio.wait(events)
    return stopping.is_set()


class _Beat(NamedTuple):
    """One beat of a loop, by the clock and for people, and when the next is due at the latest."""

    at: float
    moment: datetime
    due: float


class Pulse:
    """The liveness of one service. Each of its loops beats at every turn and announces the next beat.

    A hanging loop misses its announced beat, so nothing else has to detect it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beats: dict[str, _Beat] = {}

    def begin(self) -> None:
        """Start over: forget the loops of the last run."""
        self._beats = {}
        self.beat()

    def beat(self, within: float = 0.0, loop: str = "") -> None:
        """Beat for this loop; the next beat follows within so many seconds plus patience."""
        now = self._clock()
        self._beats[loop] = _Beat(now, datetime.now(UTC), now + within + PATIENCE_SECONDS)
        if loop:
            self._beats.pop("", None)  # the beat of the start

    def rest(self, loop: str = "") -> None:
        """Stop expecting beats of this loop: it ended or waits without a limit."""
        self._beats.pop(loop, None)

    @property
    def last(self) -> datetime | None:
        """The oldest of the loops' last beats; None if none is expected."""
        return min((beat.moment for beat in list(self._beats.values())), default=None)

    def late(self) -> str:
        """Describe the overdue loops; empty if there are none."""
        now = self._clock()
        beats = list(self._beats.items())  # a loop may beat in another thread meanwhile
        overdue = [(loop, beat) for loop, beat in beats if now > beat.due]
        return "; ".join(
            f"{f'{loop}: ' if loop else ''}unresponsive for {now - beat.at:.0f} s, since {beat.moment:%H:%M:%S} UTC"
            for loop, beat in overdue
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


RUNNING = "running"
"""The reason of a service that simply runs."""


class ServiceRunner:
    """Keeps one service running, and knows how it is."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._report = ServiceReport(service.name, ServiceState.STARTING)
        self._cut_off = False
        self.ready = asyncio.Event()

    def report(self) -> ServiceReport:
        if self._report.state not in (ServiceState.STARTING, ServiceState.RUNNING):
            return self._report
        pulse, running = self.service.pulse, self._report.state is ServiceState.RUNNING
        problem, late = self.service.problem() if running else "", pulse.late()
        if not (problem or late or running):
            return self._report
        return replace(
            self._report,
            health="degraded" if problem or late else "healthy",
            reason="; ".join(filter(None, (late, problem))) or self.service.notice() or RUNNING,
            last_health_at=pulse.last,
            late=bool(late),
        )

    def cut_off(self, seconds: float) -> None:
        """Report for good that it didn't stop in time, whatever it still does."""
        self._cut_off = True
        self._report = replace(
            self._report,
            state=ServiceState.ERROR,
            health="degraded",
            reason=f"didn't stop within {seconds:.0f} s and was cancelled",
            last_error=SHUTDOWN_TIMEOUT,
        )

    async def keep(self, stopping: asyncio.Event) -> None:
        """Run the service until asked to stop, again and again if need be."""
        delay = FIRST_RETRY_SECONDS
        loop = asyncio.get_running_loop()
        while not stopping.is_set():
            begun = loop.time()
            try:
                await self._live(stopping)
            except Exception as error:  # the edge of a service: it fails alone
                known = isinstance(error, SupervisorError)  # then its words say it all
                words = describe(error)
                about = LogEvent.SERVICE_FAILED.extra(service=self.service.name, error=words)
                log.error("service %s failed: %s", self.service.name, words, exc_info=not known, extra=about)  # noqa: TRY400
                if loop.time() - begun > STEADY_SECONDS:
                    delay = FIRST_RETRY_SECONDS
                self._report = replace(
                    self._report,
                    state=ServiceState.ERROR,
                    health="degraded",
                    reason=f"failed; retrying in {delay:.0f} s",
                    last_error=words,
                )
                self.ready.set()
                await wait_until(None, stopping, delay)
                delay = min(delay * 2, LONGEST_RETRY_SECONDS)
        if not self._cut_off:
            self._report = replace(self._report, state=ServiceState.STOPPED, health="unknown", reason="stopped")
        self.ready.set()  # also where it was asked to stop before it began: somebody may wait

    async def _live(self, stopping: asyncio.Event) -> None:
        try:
            self.service.pulse.begin()
            await self.service.initialise()
            self.service.pulse.begin()
            self._report = replace(self._report, state=ServiceState.RUNNING)
            self.ready.set()
            await self.service.run(stopping)
            if not stopping.is_set():
                raise RuntimeError("the service ended unexpectedly")
        finally:
            await self.service.shut_down()


class ServiceRegistry:
    """All services of a daemon, disabled ones included."""

    def __init__(self, services: Sequence[Service], disabled: Sequence[tuple[str, str]] = ()) -> None:
        self._keepers = [ServiceRunner(service) for service in services]
        self._disabled = [ServiceReport(name, ServiceState.DISABLED, reason=reason) for name, reason in disabled]
        self._tasks: dict[asyncio.Task[None], str] = {}

    async def start(self, stopping: asyncio.Event) -> None:
        """Start all, and come back when each has run or failed once."""
        for keeper in self._keepers:
            self._tasks[asyncio.create_task(keeper.keep(stopping), name=keeper.service.name)] = keeper.service.name
        await asyncio.gather(*(keeper.ready.wait() for keeper in self._keepers))

    async def stop(self, bound_seconds: float) -> list[str]:
        """Wait for all services, which were told to stop; return the names of those that didn't in time."""
        if not self._tasks:
            return []
        _, late = await asyncio.wait(self._tasks, timeout=bound_seconds)
        laggards = [self._tasks[task] for task in late]
        for task in late:
            log.error("service %s didn't stop within %.0f s and is cancelled", self._tasks[task], bound_seconds)
            next(each for each in self._keepers if each.service.name == self._tasks[task]).cut_off(bound_seconds)
            task.cancel()
        if late:  # not for ever: one that hangs in its shutting down as well is left to the end of the program
            await asyncio.wait(late, timeout=CANCEL_SECONDS)
        return laggards

    def reports(self) -> list[ServiceReport]:
        return [keeper.report() for keeper in self._keepers] + self._disabled


def with_trouble(reports: Sequence[ServiceReport], trouble: LedgerUnavailable | None) -> list[ServiceReport]:
    """Add the ledger's problem: all services need the ledger, so no running one is healthy then."""
    if trouble is None:
        return list(reports)
    return [
        replace(each, health="degraded", reason=trouble.short, last_error=str(trouble))
        if each.state is ServiceState.RUNNING and each.health == "healthy"
        else each
        for each in reports
    ]


T = TypeVar("T")

SPARE = 16
"""Beside one thread for each worker: the queue, the control door, looks, the configuration, heartbeats, moves, and each
kind of what is due."""


class Blocking:
    """Runs blocking calls off the event loop. The limit must exceed what can be slow at the same time."""

    def __init__(self, limit: int = SPARE, name: str = "blocking") -> None:
        self._threads = DaemonThreads(name, limit)

    async def __call__(self, work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 (whatever `work` takes)
        return await asyncio.wrap_future(self._threads.submit(work, *arguments))

    def widen(self, busy: int) -> None:
        """Have room for so many that are busy at the same time, beside the spare ones. It never gets narrower."""
        self._threads.widen(busy + SPARE)
