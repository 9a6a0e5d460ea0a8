"""An event loop whose clock is virtual: where all wait, it jumps to the next moment at which something is due."""

from __future__ import annotations

import asyncio
import selectors


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits for the clock.

    A jump goes `beyond` what was waited for, as a real clock does. Where it does not, a wait that is too short to move
    a large number is never over: that is for who waits for whole seconds.
    """

    def __init__(self, beyond: float = 0.0) -> None:
        self.elapsed = 0.0
        self.beyond = beyond
        super().__init__(_Jumping(self))
        if beyond:
            self._clock_resolution = 0.0  # else a timer that is due sooner comes without a jump, again and again

    def time(self) -> float:
        return self.elapsed


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout is not None else None)
        if not found and timeout is not None:  # nor is a timer over that is due at exactly this moment
            self._loop.elapsed += timeout + self._loop.beyond
        return found
