"""One look at a time, however many ask: who asks while one is under way is answered by the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OneLook(Generic[T]):
    """Belongs to one event loop."""

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._running: asyncio.Future[T] | None = None
        self._next: asyncio.Future[T] | None = None

    async def __call__(self) -> T:
        """A look that had not begun when it was asked for."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Future[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        return await self._look()
