"""What the daemon runs: services with one contract, each on its own, each telling how it is.

A service that fails is started again with back-off, and is seen to have failed; it pulls no other down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.times import to_text

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 60.0
STEADY_SECONDS = 60.0
"""A service that ran for so long starts its back-off anew."""

CANCEL_SECONDS = 2.0
"""What a service that did not stop gets to let go of everything once it is cut off."""


class ServiceState(StrEnum):
    """Where a service's life stands."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    ERROR = "error"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Report:
    """A service as `status` shows it."""

    name: str
    state: ServiceState
    health: str = "unknown"
    reason: str = ""
    last_health_at: datetime | None = None
    last_error: str | None = None

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


class Service(Protocol):
    """The contract. `run` returns when `stopping` is set, and raises what it can't deal with."""

    name: str

    async def initialise(self) -> None:
        """Get ready; what fails here fails the service."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Do the work until asked to stop."""

    async def shut_down(self) -> None:
        """Let go of everything; called after `run`, however that ended."""

    def problem(self) -> str:
        """What is wrong with it right now, in words; empty while it is well."""


class Keeper:
    """Keeps one service running, and knows how it is."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._report = Report(service.name, ServiceState.STARTING)
        self.ready = asyncio.Event()

    def report(self) -> Report:
        """How the service is at this moment."""
        if self._report.state is not ServiceState.RUNNING:
            return self._report
        problem = self.service.problem()
        health = "degraded" if problem else "healthy"
        return replace(self._report, health=health, reason=problem or "running", last_health_at=datetime.now(UTC))

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
                words = str(error) if known else f"{type(error).__name__}: {error}"
                log.error("service %s failed: %s", self.service.name, words, exc_info=not known)  # noqa: TRY400
                if loop.time() - begun > STEADY_SECONDS:
                    delay = FIRST_RETRY_SECONDS
                self._report = replace(
                    self._report,
                    state=ServiceState.ERROR,
                    health="degraded",
                    reason=f"failed; tried again in {delay:.0f} s",
                    last_error=words,
                )
                self.ready.set()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), delay)
                delay = min(delay * 2, LONGEST_RETRY_SECONDS)
        self._report = replace(self._report, state=ServiceState.STOPPED, health="unknown", reason="stopped")
        self.ready.set()  # also where it was asked to stop before it began: somebody may wait

    async def _live(self, stopping: asyncio.Event) -> None:
        try:
            await self.service.initialise()
            self._report = replace(self._report, state=ServiceState.RUNNING)
            self.ready.set()
            await self.service.run(stopping)
            if not stopping.is_set():
                raise RuntimeError("it ended although nobody asked it to")
        finally:
            await self.service.shut_down()


class Registry:
    """All services of a daemon, those that are not enabled included."""

    def __init__(self, services: Sequence[Service], disabled: Sequence[tuple[str, str]] = ()) -> None:
        self._keepers = [Keeper(service) for service in services]
        self._disabled = [Report(name, ServiceState.DISABLED, reason=reason) for name, reason in disabled]
        self._tasks: dict[asyncio.Task[None], str] = {}

    async def start(self, stopping: asyncio.Event) -> None:
        """Start all, and come back when each has run or failed once."""
        for keeper in self._keepers:
            self._tasks[asyncio.create_task(keeper.keep(stopping), name=keeper.service.name)] = keeper.service.name
        await asyncio.gather(*(keeper.ready.wait() for keeper in self._keepers))

    async def stop(self, bound_seconds: float) -> list[str]:
        """Wait for all, which have been asked to stop; the names of those who did not within the bound."""
        if not self._tasks:
            return []
        _, late = await asyncio.wait(self._tasks, timeout=bound_seconds)
        laggards = [self._tasks[task] for task in late]
        for task in late:
            log.error("service %s did not stop within %.0f s; it is ended", self._tasks[task], bound_seconds)
            task.cancel()
        if late:  # not for ever: one that hangs in its shutting down as well is left to the end of the program
            await asyncio.wait(late, timeout=CANCEL_SECONDS)
        return laggards

    def reports(self) -> list[Report]:
        """How each is."""
        return [keeper.report() for keeper in self._keepers] + self._disabled
