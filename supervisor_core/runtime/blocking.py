"""The bridge from the event loop to calls that block: each runs in a daemon thread, and is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from supervisor_core.adapters.threads import DaemonThreads

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
