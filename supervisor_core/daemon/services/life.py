"""Keeps the supervisor's life as its services are, and its teams as configured."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.storage.supervisors import SupervisorStatus

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 5.0
"""Between two looks whether the life is as the services are."""

BROKEN_SECONDS = 30.0
"""A service that is back sooner, with its own back-off, has not made the supervisor fail."""


class LifeRecorder(Service):
    """A service of the daemon that works behind the others."""

    name = "life"

    def __init__(
        self,
        agent: SupervisorAgent,
        blocking: Blocking,
        config: Callable[[], SupervisorConfig],
        broken: Callable[[], str],
    ) -> None:
        super().__init__()
        self._agent = agent
        self._blocking = blocking
        self._config = config
        self._broken = broken
        """Returns why workers aren't supervised; empty while they are."""
        self._broken_since: float | None = None
        self._teams_of: SupervisorConfig | None = None
        self._problem = ""

    def problem(self) -> str:
        """The error of the last write."""
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Record heartbeats until told to stop."""
        while not stopping.is_set():
            seconds = FOLLOW_SECONDS
            self.pulse.beat(within=seconds)
            if not await wait_until(None, stopping, seconds):
                await self.follow()

    async def spawn(self) -> None:
        """Record this run, and whether an earlier one was paused, before anything is planned."""
        await self._careful(self._spawn)

    async def follow(self) -> None:
        """Have the life as the services are, and the teams as configured."""
        await self._careful(self._follow)

    async def _careful(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            known = isinstance(error, SupervisorError)
            words = describe(error)
            if words != self._problem:
                log.error("the supervisor's status couldn't be recorded: %s", words, exc_info=not known)  # noqa: TRY400
            self._problem = words
        else:
            self._problem = ""

    async def _spawn(self) -> None:
        await self._agent.recall()
        await self._agent.spawn()

    async def _follow(self) -> None:
        broken, status = self._broken(), self._agent.status
        if status is SupervisorStatus.SPAWNING:
            await self._spawn()  # again, where that failed
        now = time.monotonic()
        self._broken_since = (self._broken_since or now) if broken else None
        if not broken and status in (SupervisorStatus.SPAWNING, SupervisorStatus.FAILED):
            await self._agent.start()
        for_long = self._broken_since is not None and now - self._broken_since >= BROKEN_SECONDS
        if broken and (status is SupervisorStatus.SPAWNING or (for_long and status is SupervisorStatus.ACTIVE)):
            await self._agent.fail(broken)
        await self._sync_teams()

    async def _sync_teams(self) -> None:
        """Have the teams be as the configuration says; again where that failed, and only for the newest one."""
        config = self._config()
        if config is self._teams_of:
            return
        for change in await self._blocking(self._agent.team_manager.sync_with, config):
            log.info("%s", change)
        self._teams_of = config
