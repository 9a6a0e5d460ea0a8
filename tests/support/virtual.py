"""An event loop whose clock is virtual: where all wait, it jumps to the next moment at which something is due."""

from __future__ import annotations

import asyncio
import selectors

SHORTEST_SECONDS = 1e-6
"""A jump that is shorter may not move a large number at all, and then it is never over."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits for the clock."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.elapsed


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout is not None else None)
        if not found and timeout:
            self._loop.elapsed += max(timeout, SHORTEST_SECONDS)
        return found
