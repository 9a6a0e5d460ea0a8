"""The ticker: its job checks on and on, whatever a check does, and it wakes whoever is due. Seconds are real."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

import pytest
from apscheduler.schedulers import base

from supervisor_core.intake import ticker as ticking
from supervisor_core.intake.ticker import Ticker

QUICK_SECONDS, FAR_SECONDS = 0.05, 3600.0


class Checks:
    """Counts checks; the first few do what they are told to instead."""

    def __init__(self, *first: Exception | None) -> None:
        self.first = list(first)
        self.count = 0
        self.cut_off = 0
        self.enough = asyncio.Event()

    async def __call__(self) -> None:
        if self.first:
            error = self.first.pop(0)
            if error is not None:
                raise error
            try:
                await asyncio.Event().wait()
            finally:
                self.cut_off += 1
        self.count += 1
        if self.count >= 3:
            self.enough.set()


async def tick(checks: Checks) -> None:
    async with asyncio.timeout(10):
        with Ticker(QUICK_SECONDS).ticking(checks, {}):
            await checks.enough.wait()


def test_a_check_that_raises_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(tick(Checks(RuntimeError("a mistake"), ValueError("another"))))
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR] * 2


def test_a_check_that_hangs_is_cut_off_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    checks = Checks(None, None)
    asyncio.run(tick(checks))
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert (checks.cut_off, errors) == (2, [])


def test_it_calls_at_a_moment_and_the_newest_moment_of_a_name_counts() -> None:
    async def story() -> None:
        ticker, called, enough = Ticker(FAR_SECONDS), list[str](), asyncio.Event()

        def last() -> None:
            called.append("a")
            enough.set()

        rounds = {"a": last, "b": lambda: called.append("b"), "c": lambda: called.append("c")}
        with ticker.ticking(Checks(), rounds):
            now = datetime.now(UTC)
            ticker.at("a", now + timedelta(hours=1))
            ticker.at("a", now + timedelta(seconds=0.2))
            ticker.at("b", now - timedelta(hours=1))
            ticker.at("c", now + timedelta(seconds=0.1))
            ticker.at("c", None)
            async with asyncio.timeout(10):
                await enough.wait()
            assert called == ["b", "a"]

    asyncio.run(story())


def test_it_goes_on_when_the_wall_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    back = timedelta(0)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) - back

    monkeypatch.setattr(base, "datetime", Clock)
    monkeypatch.setattr(ticking, "datetime", Clock)

    async def story() -> None:
        nonlocal back
        checks = Checks()
        async with asyncio.timeout(10):
            with Ticker(QUICK_SECONDS).ticking(checks, {}):
                await checks.enough.wait()
                checks.count, back = 0, timedelta(hours=1)
                checks.enough.clear()
                await checks.enough.wait()

    asyncio.run(story())
