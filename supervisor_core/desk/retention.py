"""The scheduler's retention chore: a sweep a day, one small piece in each round, and a look for damage each hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from supervisor_core.adapters.old_files import next_sweep
from supervisor_core.handlers import Host
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.retention import sweep

AFTER_START = timedelta(minutes=1)
"""A daemon that starts has better things to do."""


CHECK_EVERY = timedelta(hours=1)
CHECK_SECONDS = 5.0
"""Enough for some gigabytes on a local disk; a larger ledger is looked through in part."""


class RetentionChore:
    """Has a lane of its own in the scheduler, so a slow drive delays nobody else."""

    name = "retention"

    def __init__(self, host: Callable[[], Host], ledger: Ledger, started_at: datetime | None = None) -> None:
        self._host = host
        self._ledger = ledger
        self._not_before = (started_at or datetime.now(UTC)) + AFTER_START
        self._check_at = self._not_before
        self._sweep: Iterator[None] | None = None

    def due_at(self) -> datetime:
        """Now, while a sweep is under way."""
        now = datetime.now(UTC)
        sweep_at = now if self._sweep else max(self._not_before, next_sweep(self._host().config.state_dir, now))
        return min(self._check_at, sweep_at)

    def work(self, now: datetime) -> bool:
        """Do the next piece, if it is time. That files no command."""
        if not self._check_at - CHECK_EVERY <= now < self._check_at:  # or the clock was set back
            self._check_at = now + CHECK_EVERY
            self._ledger.check(CHECK_SECONDS)
        if self._sweep is None:
            if now < self._not_before or now < next_sweep(self._host().config.state_dir, now):
                return False
            self._sweep = sweep(self._host(), self._ledger, now)
        if next(self._sweep, self) is self:
            self._sweep = None
        return False
