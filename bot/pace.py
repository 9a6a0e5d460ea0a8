"""How fast Slack may be spoken to: what each call bears, how long Slack asked us to wait, and how long it is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

FIRST_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 0.5, 30.0
"""Between two tries while Slack is away; it doubles."""

KEPT_GATES = 1000
"""More than are ever in use; beyond them, those whose time has passed are let go."""


class HeldError(Exception):
    """Slack asked us to leave this method alone for another `seconds`."""

    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"Slack asked us not to call {method} for another {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Gate:
    """One limit: so many seconds between two calls, and so many calls in a row before that counts."""

    key: Hashable
    seconds: float
    burst: int = 1


class Pace:
    """Tells how long a call must wait. Nothing here sleeps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[Hashable, float] = {}
        self._held: dict[Hashable, float] = {}
        self._failures: dict[Hashable, int] = {}

    def wait(self, gates: Iterable[Gate], *holds: Hashable) -> float:
        """How long from now until all of these let a call through; 0 for at once."""
        now = self._clock()
        times = [self._next.get(gate.key, now) - gate.seconds * (gate.burst - 1) for gate in gates]
        times += [self._held.get(key, now) for key in holds]
        return max([moment - now for moment in times] + [0.0])

    def free_at(self, gate: Gate) -> float:
        """When the last call through this gate has had its time; 0 where there was none, or long ago."""
        return self._next.get(gate.key, 0.0)

    def used(self, gates: Iterable[Gate]) -> None:
        """A call went through these."""
        now = self._clock()
        for gate in gates:
            self._next[gate.key] = max(now, self._next.get(gate.key, now)) + gate.seconds
        if len(self._next) > KEPT_GATES:
            self._next = {key: moment for key, moment in self._next.items() if moment > now}

    def hold(self, key: Hashable, seconds: float | None = None) -> float:
        """Nothing of this kind for so long; without a time, for longer each time in a row. How long."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = min(LONGEST_HOLD_SECONDS, FIRST_HOLD_SECONDS * 2 ** min(failures, 10)) if seconds is None else seconds
        self._held[key] = max(self._clock() + wait, self._held.get(key, 0.0))
        return wait

    def well(self, *keys: Hashable) -> None:
        """These work again: what was asked for or feared no longer holds."""
        for key in keys:
            self._failures.pop(key, None)
            self._held.pop(key, None)
