"""The steps of a command that is waited for: a list that updates in place on a terminal, else a line for each."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from supervisor_core.cli.table import AMBER, DIM, GREEN, MAX_WIDTH, RED, paint, printable, terminal_width, wants_colour
from supervisor_core.common.text import capitalize
from supervisor_core.common.times import format_span, from_text

Steps = Sequence[Mapping[str, str]]

DONE, CURRENT, FAILED = ("✓", GREEN), ("•", AMBER), ("✗", RED)
SHORTEST_ELAPSED = 1.0
"""Seconds: a step that takes less shows no time."""


class StepPrinter:
    """Prints each step once, as soon as it's known, with the seconds since the command was sent."""

    tick: float | None = None
    """How often it wants to be drawn while nothing happens; None for never."""

    def __init__(self, since: datetime, *, several: bool) -> None:
        self._since = since
        self._several = several
        self._printed: Counter[str] = Counter()

    @property
    def seen(self) -> int:
        """The number of steps that were shown."""
        return self._printed.total()

    def show(self, known: Steps) -> None:
        """Print the new steps. Each worker's are in their order, whichever worker's was written first."""
        met: Counter[str] = Counter()
        for step in known:
            worker = step["worker_id"]
            met[worker] += 1
            if met[worker] > self._printed[worker]:
                self._printed[worker] += 1
                print(self._line(step), flush=True)

    def draw(self) -> None:
        """Nothing changes in lines that were printed."""

    def finish(self, _failed: Sequence[str]) -> None:
        """The last step of each worker has ended."""

    def _line(self, step: Mapping[str, str]) -> str:
        seconds = max((from_text(step["at"]) - self._since).total_seconds(), 0.0)
        who = f"{step['worker_id']}: " if self._several else ""
        return f"{seconds:6.1f} s  {who}{step['words']}"


class StepList(StepPrinter):
    """Draws the steps as a checklist: done, current with its time so far, failed."""

    tick = 0.5

    def __init__(self, since: datetime, *, several: bool) -> None:
        super().__init__(since, several=several)
        self._known: Steps = ()
        self._drawn = 0

    @property
    def seen(self) -> int:
        return len(self._known)

    def show(self, known: Steps) -> None:
        """Draw these steps, which are all of them so far."""
        if len(known) >= len(self._known):
            self._known = known
        self.draw()

    def draw(self) -> None:
        """Draw the list again over the last one."""
        self._draw(datetime.now(UTC), ended=False, failed=())

    def finish(self, failed: Sequence[str]) -> None:
        """Draw it for the last time: every step is done, but the last one of each worker that failed."""
        self._draw(datetime.now(UTC), ended=True, failed=failed)
        self._drawn = 0

    def _draw(self, now: datetime, *, ended: bool, failed: Sequence[str]) -> None:
        lines = self.lines(now, ended=ended, failed=failed)
        if not ended:
            lines = lines[-(os.get_terminal_size().lines - 1) :]  # what has left the screen can't be drawn again
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        sys.stdout.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)

    def lines(self, now: datetime, *, ended: bool, failed: Sequence[str]) -> list[str]:
        """The list as text."""
        last = {step["worker_id"]: place for place, step in enumerate(self._known)}
        return [
            self._entry(place, step, now, last=place == last[step["worker_id"]], ended=ended, failed=failed)
            for place, step in enumerate(self._known)
        ]

    def _entry(
        self, place: int, step: Mapping[str, str], now: datetime, *, last: bool, ended: bool, failed: Sequence[str]
    ) -> str:
        worker = step["worker_id"]
        following = (each["at"] for each in self._known[place + 1 :] if each["worker_id"] == worker)
        until = now if last else from_text(next(following))
        seconds = (until - from_text(step["at"])).total_seconds()
        mark, colour = CURRENT if last and not ended else FAILED if last and worker in failed else DONE
        who = f"{worker}: " if self._several and worker not in step["words"] else ""
        elapsed = f"  {format_span(seconds)}" if seconds >= SHORTEST_ELAPSED else ""
        room = (terminal_width() or MAX_WIDTH) - len(f"{mark} {who}{elapsed}") - 1
        words = printable(who + capitalize(step["words"], worker))
        words = words if len(words) <= room else f"{words[: room - 1]}…"
        if not wants_colour():
            return f"{mark} {words}{elapsed}"
        return f"{paint(mark, colour)} {words}{paint(elapsed, DIM)}"


def step_printer(since: datetime, *, several: bool) -> StepPrinter:
    """The way of showing steps that the output can take."""
    live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"
    return (StepList if live else StepPrinter)(since, several=several)
