"""Orders of App Home pages: when a reader opens theirs, and when something on it changes.

A page is a row of the outbox under its reader's id, with the time of their last action and their position. So it waits
while Slack is away, survives a crash, and several orders are published once, with the state at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from bot.outbound.messages import HOME
from bot.pools import quick
from bot.views.home.sections import HomePosition
from supervisor_core.alerts.rows import ALERT
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.events import Subscription
from supervisor_core.common.service import wait_until
from supervisor_core.common.times import from_text, to_text
from supervisor_core.intake.approvals.rows import ASKED
from supervisor_core.jobs.rows import CARD
from supervisor_core.storage import outbox
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger

KEPT = timedelta(hours=1)
"""A page follows changes for this long after its reader's last action. Slack doesn't say when they leave it, and each
followed page takes its share of the rate limit."""

SETTLE_SECONDS = 0.2
"""The delay from a change to its order, so that changes close together make one page."""

AGAIN_SECONDS = 1.0
"""The shortest time between two orders, because each is a transaction."""

FORGOTTEN = timedelta(days=7)
"""After so long without a visit, App Home opens on its first page."""

CHANGED_WITH = (CARD, ASKED, ALERT)
"""Kinds of messages whose content pages show, too."""

log = logging.getLogger(__name__)


def order_opened_page(payload: Mapping[str, Any] | None, user: str, at: datetime) -> Message:
    """The order for a page that was opened; `payload`: its last order. A reader who comes back soon sees the same part,
    others the first page."""
    place = position(payload or {}) if payload and at - _at(payload) < KEPT else HomePosition()
    return order_page(user, at, place)


def order_page(user: str, at: datetime, place: HomePosition) -> Message:
    """Order a page that its viewer just used."""
    return Message(HOME, user, {"user": user, "at": to_text(at), "page": place.page, "only": place.only})


def position(payload: Mapping[str, Any]) -> HomePosition:
    """The reader's position on their page."""
    start = HomePosition()
    page, only = payload.get("page", start.page), payload.get("only", start.only)
    return HomePosition(page if isinstance(page, int) else start.page, str(only))


def follows_until(payload: Mapping[str, Any]) -> datetime:
    """The moment until which this page follows changes."""
    return _at(payload) + KEPT


def forget_old(connection: Connection, now: datetime) -> int:
    """Forget pages that weren't opened for long; return how many."""
    pages = outbox.payloads(connection, HOME)
    return outbox.forget(connection, HOME, [user for user, payload in pages.items() if now - _at(payload) > FORGOTTEN])


class HomeRefresher:
    """Orders pages. All methods but `order_all` run on the event loop."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._ledger = ledger
        self._clock = clock
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Note a change that a page may show."""
        self._changed.set()

    async def opened(self, user: str, at: datetime) -> Message:
        """The order for a page that its reader opens."""
        return order_opened_page(await self._ordered(user), user, at)

    async def turned(self, user: str, at: datetime, *, page: int | None = None, only: str | None = None) -> Message:
        """The order for a page whose reader turns it, filters it, or refreshes it."""
        place = position(await self._ordered(user) or {})
        if only is not None:
            place = HomePosition(0, only)
        return order_page(user, at, replace(place, page=max(0, page)) if page is not None else place)

    async def run(self, stopping: asyncio.Event, heard: Callable[[], Subscription]) -> None:
        """Order the pages of all who look, whenever something has changed; until asked to stop."""
        loop = asyncio.get_running_loop()
        wake = partial(loop.call_soon_threadsafe, self.wake)
        self.wake()  # for changes since the last run
        with heard() as events, self._ledger.listening(wake, CHANGED_WITH):
            hearing = asyncio.create_task(self._hear(events))
            try:
                while not stopping.is_set():
                    await self._next(stopping)
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def _next(self, stopping: asyncio.Event) -> None:
        """Wait for a change, and for others soon after it."""
        await wait_until(self._changed, stopping)
        if not await wait_until(None, stopping, SETTLE_SECONDS):
            self._changed.clear()
            try:
                await quick(self.order_all)
            except SupervisorError as error:
                log.warning("App Home pages are out of date: %s", error)
                self._changed.set()
            await wait_until(None, stopping, AGAIN_SECONDS)

    async def _hear(self, events: Subscription) -> None:
        async for _ in events:
            self.wake()

    def order_all(self) -> None:
        """Order all pages that may be open. It blocks."""
        since = self._clock() - KEPT
        pages = self._ledger.read(partial(outbox.payloads, kind=HOME))
        kept = [user for user, payload in pages.items() if _at(payload) > since]
        if kept:
            self._ledger.order([Message(HOME, user, None) for user in kept])

    async def _ordered(self, user: str) -> Mapping[str, Any] | None:
        look = partial(outbox.payload_of, kind=HOME, subject=user)
        return await quick(self._ledger.read, look)


def _at(payload: Mapping[str, Any]) -> datetime:
    """The time of its reader's last action; long ago where it can't be read."""
    try:
        return from_text(str(payload.get("at")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
