"""The service that keeps `runtime.json` up to date: of a daemon that dies without a word it tells how all was last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from supervisor_core.runtime.services import Service, wait_until

NOTE_SECONDS = 5.0
"""At most so often; what changes faster is told by `status`."""


class Noting(Service):
    """Has it written whenever what it says has changed, and then not again for a while."""

    name = "noting"

    def __init__(self, note: Callable[[], Awaitable[None]], mark: Callable[[], object]) -> None:
        super().__init__()
        self._note = note
        self._mark = mark

    async def run(self, stopping: asyncio.Event) -> None:
        """Look whether something has changed, again and again; until asked to stop, after which others write it."""
        noted: object = None
        while not stopping.is_set():
            self.pulse.beat(within=NOTE_SECONDS)
            now = self._mark()
            if now != noted:
                await self._note()
                noted = now
            await wait_until(None, stopping, NOTE_SECONDS)
