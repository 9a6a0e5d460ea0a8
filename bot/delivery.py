"""From the outbox to Slack: rows that wait become messages, in the order of their channel, at a pace that Slack bears.

A row stays pending until Slack has its newest version. So nothing is lost over an outage or a crash; and what was
ordered several times meanwhile is told once, as it is now.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.composing import Composing
from bot.home_page import Compose
from bot.limits import gates, method
from bot.outgoing import HOME, KINDS, WHISPER
from bot.pace import Pace
from bot.speaking import Speaker, UploadError
from bot.telling import HeldError, ShutOut, ShutOutError, Teller
from bot.threads import placed
from bot.weather import FATAL, is_weather, method_of, reason_of, wait_asked, word_of
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.times import utc_now
from supervisor_core.ledger import outbox
from supervisor_core.ledger.alerts import ALERT
from supervisor_core.ledger.approvals import ASKED
from supervisor_core.ledger.jobs import CARD
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.store import Ledger

LOOK_SECONDS = 2.0
"""The net below the wakes: what another process ordered is told within so long."""

SHORTEST_SECONDS = 0.05
"""Between two looks while something waits, so that no rounding of a wait becomes a busy loop."""

SHUT_SECONDS = 60.0
"""How long nothing is tried in a channel that takes nothing from us: somebody must invite the bot first."""

DOUBTFUL_ATTEMPTS, HOPELESS_ATTEMPTS = 10, 40
"""After so many tries a message that meets nothing but bad weather is blamed itself: at the first where others got
through meanwhile, else at the second, after about a quarter of an hour. Until then its channel waits behind it."""

EVERYTHING = "*"

PARENTS = frozenset({CARD, ASKED, ALERT})
"""Kinds of messages that have others in their thread."""

# About one channel or one message, when they answer a message; about the token elsewhere.
NOT_FATAL_HERE = frozenset({"missing_scope", "no_permission", "team_access_not_granted"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a message is not told yet."""

    seconds: float
    words: str
    holds: bool
    """The later ones of its channel wait as well: a channel reads in order."""


class Delivery:
    """Sends what waits. `fallback`: a channel for what no other place takes; `name`: how the bot is invited;
    `compose`: what somebody's page shows; `told`: called when a card was told, by which alone it is known here what
    another process has done; `shut_out`: called when a channel takes nothing from us."""

    def __init__(
        self,
        ledger: Ledger,
        speaker: Speaker,
        name: str,
        fallback: str = "",
        composing: Composing | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        compose: Compose | None = None,
        read_report: Callable[[str], str] = lambda _: "",
        told: Callable[[], object] = lambda: None,
        shut_out: ShutOut | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._ledger = ledger
        self._after_telling = told
        self._clock = clock
        self._now = now
        self._pace = pace or Pace(clock)
        self._teller = Teller(
            ledger, speaker, self._pace, composing or Composing(), name, fallback, read_report, compose, shut_out, now
        )
        self._woken = asyncio.Event()
        self._problem = ""
        self._told_at = 0.0
        self._failed_at: dict[int, float] = {}
        self._shut: dict[str, float] = {}

    @property
    def problem(self) -> str:
        """What keeps messages from being told right now; empty while nothing does."""
        return self._problem

    def wake(self) -> None:
        """Look now: something was ordered."""
        self._woken.set()

    def back(self) -> None:
        """Slack was just heard of: what waited because it was away need not wait longer."""
        self._pace.well(EVERYTHING)
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Deliver until asked to stop."""
        stop = asyncio.ensure_future(stopping.wait())
        try:
            while not stopping.is_set():
                self._woken.clear()
                seconds = await self._careful_round(stopping)
                woken = asyncio.ensure_future(self._woken.wait())
                await asyncio.wait({stop, woken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        finally:
            stop.cancel()

    async def _careful_round(self, stopping: asyncio.Event) -> float:
        """The edge of a round: where the ledger can't be read or written, that is said, and tried again soon."""
        try:
            return await self.round(stopping)
        except SupervisorError as error:
            self._problem = str(error)
            log.warning("%s", error)
            return LOOK_SECONDS

    async def round(self, stopping: asyncio.Event | None = None) -> float:
        """Send what may be sent now; in how many seconds to look again."""
        soonest, problem = LOOK_SECONDS, ""
        for queue in self._queues(await self._waiting()):
            for message in queue:
                if stopping is not None and stopping.is_set():
                    return 0.0
                wait = self._wait(message)
                if wait is None:
                    wait = await self._deliver(message)
                    if message.kind == HOME:  # it took a look at all workers: what came meanwhile goes first
                        self._problem = problem or (wait.words if wait else "")
                        return SHORTEST_SECONDS
                if wait is None and message.kind in PARENTS:
                    soonest = SHORTEST_SECONDS  # what stands below it has waited for it
                    self._after_telling()
                if wait is not None:
                    soonest = min(soonest, max(wait.seconds, SHORTEST_SECONDS))
                    problem = problem or wait.words
                    if wait.holds:
                        break
        self._problem = problem
        return soonest

    def _queues(self, waiting: Sequence[Waiting]) -> list[list[Waiting]]:
        """What waits, each channel's posts in their order. Those that were tried least begin, so that one that fails
        again and again keeps no other channel from being tried; then those whose turn is longest ago, so that two
        cards which change all the time leave the others their share of what Slack bears. Pages come last, the one that
        was opened last before the others."""
        queues: dict[object, list[Waiting]] = {}
        for message in sorted(waiting, key=_opened_at, reverse=True):
            queues.setdefault(_place(message) or message.outbox_id, []).append(message)
        return sorted(queues.values(), key=lambda queue: self._turn(queue[0]))

    def _turn(self, message: Waiting) -> tuple[bool, int, float]:
        """Its place among the others; by its own limit alone it is 0 where it had no turn yet."""
        is_page = message.kind == HOME
        return is_page, message.attempts, 0.0 if is_page else self._pace.free_at(gates(message)[0])

    async def _waiting(self) -> list[Waiting]:
        self._shut = {place: until for place, until in self._shut.items() if until > self._clock()}
        now, shut = self._now(), tuple(self._shut)

        def look(connection: Connection) -> list[Waiting]:
            return [placed(connection, message) for message in outbox.waiting(connection, KINDS, now, shut)]

        return await asyncio.to_thread(self._ledger.read, look)

    def _wait(self, message: Waiting) -> Wait | None:
        """What keeps it before it is tried."""
        if _place(message) in self._shut and not message.payload.get("user"):
            return Wait(SHUT_SECONDS, message.last_error, holds=False)
        own = (message.due_at - self._now()).total_seconds()
        if own > 0:
            return Wait(own, message.last_error, holds=message.attempts == 0)
        pace = self._pace.wait(gates(message), EVERYTHING, method(message))
        return Wait(pace, message.last_error, holds=True) if pace > 0 else None

    async def _deliver(self, message: Waiting) -> Wait | None:
        """The edge of a message: one that can't be told keeps no other from being told."""
        by = method(message)
        try:
            await self._teller.tell(message)
        except SlackApiError as error:
            word, called = word_of(error), method_of(error) or by
            if is_weather(error) or word in FATAL - NOT_FATAL_HERE:
                for each in {by, called}:  # it may have come to another method than it began with
                    self._pace.hold(each, wait_asked(error))
                return await self._held(message, f"Slack answers {word} to {called}")
            return await self._later(message, f"Slack refuses {called}: {word}")
        except HeldError as error:
            return await self._held(message, str(error))
        except (ClientError, OSError, TimeoutError) as error:
            self._pace.hold(EVERYTHING)
            return await self._held(message, f"Slack can't be reached: {reason_of(error)}")
        except ShutOutError as error:
            self._shut[_place(message)] = self._clock() + SHUT_SECONDS
            return await self._later(message, str(error))
        except UploadError as error:
            return await self._later(message, str(error))
        except SupervisorError:
            raise  # the ledger: whatever is told now could not be noted
        except Exception as error:
            log.exception("%s %s can't be told", message.kind, message.subject)
            return await self._later(message, f"{type(error).__name__}: {error}")
        self._pace.well(EVERYTHING, by)
        self._told_at = self._clock()
        self._failed_at.pop(message.outbox_id, None)
        return None

    async def _held(self, message: Waiting, reason: str) -> Wait:
        """Bad weather: it is tried again when the pace allows, and its channel waits; unless it is to blame itself."""
        now = self._clock()
        before = self._failed_at.get(message.outbox_id, now)
        self._failed_at[message.outbox_id] = now
        others_got_through = self._told_at > before
        if message.attempts >= (DOUBTFUL_ATTEMPTS if others_got_through else HOPELESS_ATTEMPTS):
            return await self._later(message, reason)
        await self._postponed(message, reason, 0.0)
        return Wait(SHORTEST_SECONDS, reason, holds=True)

    async def _later(self, message: Waiting, reason: str) -> Wait:
        """It is about this message alone: it waits a while of its own, longer each time."""
        await self._postponed(message, reason, None)
        return Wait(LOOK_SECONDS, reason, holds=False)

    async def _postponed(self, message: Waiting, reason: str, seconds: float | None) -> None:
        log.warning("%s %s waits: %s", message.kind, message.subject, reason)
        now = self._now()
        work = partial(outbox.postpone, message=message, error=reason, now=now, seconds=seconds)
        await asyncio.wrap_future(self._ledger.submit(work))


def _opened_at(message: Waiting) -> str:
    """When a page was opened; everything else stays in the order in which it was ordered."""
    return str(message.payload.get("at", "")) if message.kind == HOME else ""


def _place(message: Waiting) -> str:
    """The channel whose order a message belongs to; none for what is edited, or told to one person alone."""
    if message.kind in (WHISPER, HOME) or message.address.get("ts"):
        return ""
    return str(message.payload.get("channel") or "")
