"""A heartbeat in the background: written again and again, and ended by nothing but being asked to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from supervisor_core.domain.errors import SupervisorError, describe
from supervisor_core.runtime.services import wait_until

RETRY_SECONDS = 5.0
"""Well within the three heartbeats of 30 s after which a supervisor counts as unresponsive."""

LAST_SECONDS = 2.0
"""What the end gives to a write that is just under way; it takes milliseconds, unless the database hangs."""

log = logging.getLogger(__name__)


class Heartbeat:
    """Calls `beat` at once and then every so many seconds, 0 for never; where that fails, again after 5 s."""

    def __init__(self, beat: Callable[[], Awaitable[None]], every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self.problem = ""
        """Why the last one was not written, in words."""
        self._beat = beat
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    def begin(self) -> None:
        """Beat from now on, unless it does already."""
        if self.every_seconds > 0 and self._task is None:
            self._ending.clear()
            self._task = asyncio.create_task(self._for_ever(), name="supervisor heartbeat")

    async def end(self) -> None:
        """Beat no more; no task is left. A write that hangs is left to its thread, and must be harmless when late."""
        task, self._task = self._task, None
        if task is not None:
            self._ending.set()
            await asyncio.wait({task}, timeout=LAST_SECONDS)
            task.cancel()
            await asyncio.wait({task})
        self.problem = ""

    async def _for_ever(self) -> None:
        told: set[type[Exception]] = set()
        while not self._ending.is_set():
            delay = self.every_seconds
            try:
                await self._beat()
            except Exception as error:  # the edge: whatever it is, the next one is tried
                known = isinstance(error, SupervisorError)  # then its words say it all
                self.problem = describe(error)
                if type(error) not in told:
                    told.add(type(error))
                    words = "the supervisor's heartbeat was not written, and is tried again every %g s: %s"
                    log.error(words, min(RETRY_SECONDS, delay), self.problem, exc_info=not known)  # noqa: TRY400
                delay = min(RETRY_SECONDS, delay)
            else:
                if told:
                    log.info("the supervisor's heartbeat is written again")
                told.clear()
                self.problem = ""
            await wait_until(None, self._ending, delay)
