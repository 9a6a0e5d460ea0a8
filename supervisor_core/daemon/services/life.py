"""Keeps the supervisor's status as its services are, and its teams as configured."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.service import Service, wait_until
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.workers.context import DaemonContext

FOLLOW_SECONDS = 5.0
"""Between two looks at the services."""

BROKEN_SECONDS = 30.0
"""A service that is back sooner, with its own back-off, has not made the supervisor fail."""

log = logging.getLogger(__name__)


class LifeRecorder(Service):
    name = "life"

    def __init__(self, agent: SupervisorAgent, context: DaemonContext, find_problem: Callable[[], str]) -> None:
        """`find_problem` returns why workers aren't supervised; empty while they are."""
        super().__init__()
        self._agent = agent
        self._context = context
        self._find_problem = find_problem
        self._broken_since: float | None = None
        self._synced_config: SupervisorConfig | None = None
        self._error = ""

    def problem(self) -> str:
        """The error of the last write."""
        return self._error

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            self.pulse.beat(within=FOLLOW_SECONDS)
            if not await wait_until(None, stopping, FOLLOW_SECONDS):
                await self.follow()

    async def spawn(self) -> None:
        """Record this run, and whether an earlier one was paused, before anything is planned."""
        await self._record(self._agent.spawn())

    async def follow(self) -> None:
        """Record whether the services run, and sync the teams with the configuration."""
        await self._record(self._follow())

    async def _record(self, work: Awaitable[None]) -> None:
        try:
            await work
            self._error = ""
        except Exception as error:
            is_known, message = isinstance(error, SupervisorError), describe(error)
            if message != self._error:
                log.error("the supervisor's status couldn't be recorded: %s", message, exc_info=not is_known)  # noqa: TRY400
            self._error = message

    async def _follow(self) -> None:
        agent, problem, now = self._agent, self._find_problem(), time.monotonic()
        self._broken_since = (self._broken_since or now) if problem else None
        is_lasting = self._broken_since is not None and now - self._broken_since >= BROKEN_SECONDS
        if agent.status is SupervisorStatus.SPAWNING:
            await agent.spawn()  # again, if that failed
        if not problem and agent.status in (SupervisorStatus.SPAWNING, SupervisorStatus.FAILED):
            await agent.start()
        elif problem and (
            agent.status is SupervisorStatus.SPAWNING or (is_lasting and agent.status is SupervisorStatus.ACTIVE)
        ):
            await agent.fail(problem)
        config = self._context.host.config
        if config is not self._synced_config:
            await agent.sync_teams(config)
            self._synced_config = config
