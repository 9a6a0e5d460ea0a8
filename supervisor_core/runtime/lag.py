"""How late this program was woken: what the host, or somebody's signal, did not let it do must accuse no worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from supervisor_core.adapters.processes_identity import platform

TICK_SECONDS = 1.0
"""Between two ticks: a stop that is shorter and lies between them is not seen, and is no lag worth the name."""

TOLERATED_SECONDS = 0.5
"""A tick that is less late than this is punctual: on a busy host all are a little late."""

KEPT = 1024
"""So many late ticks are remembered: seventeen minutes in which each of them was late."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The late ticks, as a value. All times are on one clock."""

    planned: float | None = None
    """When the next tick should be; None while nothing ticks."""
    late: tuple[tuple[float, float], ...] = ()
    """When a late one came, and by how much."""

    def woken(self, now: float) -> Lag:
        """A tick came; the next one is planned from it."""
        return Lag(now + TICK_SECONDS, self._all(now)[-KEPT:])

    def rested(self, now: float) -> Lag:
        """It ticks no more: what follows is no lag."""
        return Lag(None, self._all(now)[-KEPT:])

    def within(self, seconds: float, now: float) -> float:
        """The whole lag of all ticks that came late in the last so many seconds, and of one that is overdue.

        Not only the part of it within: of a night's suspension that ended a minute ago, all is taken off.
        """
        return sum(by for at, by in self._all(now) if now - at <= seconds)

    def _all(self, now: float) -> tuple[tuple[float, float], ...]:
        by = 0.0 if self.planned is None else now - self.planned
        return (*self.late, (now, by)) if by >= TOLERATED_SECONDS else self.late


class LagMeter:
    """Ticks on the event loop; `within` may be asked from any thread, and answers at once.

    Its clock goes on while the host is suspended, and is set by nobody: a clock that an administrator sets is no lag.
    The event loop's own clock stands still in a suspension, on Linux, so the tick comes late by just that.
    """

    def __init__(
        self, clock: Callable[[], float] = platform.since_boot, ticked: Callable[[], None] = lambda: None
    ) -> None:
        self._clock = clock
        self._ticked = ticked
        self._lag = Lag()  # replaced as a whole, never changed
        self._next: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        """Woken now."""
        self._lag = self._lag.woken(self._clock())

    def within(self, seconds: float) -> float:
        """How long nothing was scheduled, in seconds, by what came late within the last so many seconds."""
        return self._lag.within(seconds, self._clock())

    async def run(self, stopping: asyncio.Event) -> None:
        """Tick until asked to stop."""
        self._lag = Lag(None, self._lag.late)
        self._go_on()
        try:
            await stopping.wait()
        finally:
            if self._next is not None:
                self._next.cancel()
            self._lag = self._lag.rested(self._clock())

    def _go_on(self) -> None:
        """Tick, and once more in a while: a timer costs less than a task that waits."""
        self.tick()
        self._ticked()
        self._next = asyncio.get_running_loop().call_later(TICK_SECONDS, self._go_on)
