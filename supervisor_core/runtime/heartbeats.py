"""The service that tells, again and again, how this supervisor and its workers are: on the drive and in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.observing import Seen
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.service_names import HEARTBEAT


class Heartbeats:
    """Writes the heartbeats of all workers each `supervisor.heartbeat_seconds`; with 0 it must not be made.

    `look` is asked each time and may fail; `parts` (or what gives the newest ones) is read anew each time.
    """

    name = HEARTBEAT

    def __init__(
        self, parts: Parts | Callable[[], Parts], blocking: Blocking, look: Callable[[], Awaitable[list[Seen]]]
    ) -> None:
        raise NotImplementedError

    def problem(self) -> str:
        """Why the last ones were not all written, in words."""
        raise NotImplementedError

    async def initialise(self) -> None:
        """Nothing to get ready."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Write them at once, and then at fixed distances; until asked to stop."""

    async def shut_down(self) -> None:
        """Nothing to let go of."""
