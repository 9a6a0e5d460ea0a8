"""From the outbox to Slack: rows that wait become messages, in the order of their channel, at a pace that Slack bears.

A row stays pending until Slack has its newest version. So nothing is lost over an outage or a crash; and what was
ordered several times meanwhile is told once, as it is now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.outgoing import KINDS, WHISPER
from bot.pace import Pace
from bot.speaking import Speaker
from bot.telling import HeldError, ShutOutError, Teller, gates
from bot.weather import FATAL, is_weather, method_of, wait_asked, word_of
from supervisor_core.ledger import outbox
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.store import Ledger

T = TypeVar("T")

LOOK_SECONDS = 2.0
"""The net below the wakes: what another process ordered is told within so long."""

SHORTEST_SECONDS = 0.05
"""Between two looks while something waits, so that no rounding of a wait becomes a busy loop."""

EVERYTHING = "*"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a message was not told."""

    words: str
    of_its_own: bool
    """It is about this message alone: those after it need not wait for it."""


class Delivery:
    """Sends what waits. `fallback`: a channel for what no other place takes; `name`: how the bot is invited."""

    def __init__(
        self, ledger: Ledger, speaker: Speaker, name: str, fallback: str = "", pace: Pace | None = None
    ) -> None:
        self._ledger = ledger
        self._pace = pace or Pace()
        self._teller = Teller(ledger, speaker, self._pace, name, fallback)
        self._woken = asyncio.Event()
        self._problem = ""

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
                seconds = await self.round()
                woken = asyncio.ensure_future(self._woken.wait())
                await asyncio.wait({stop, woken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        finally:
            stop.cancel()

    async def round(self) -> float:
        """Send what may be sent now; in how many seconds to look again."""
        soonest, held_up, self._problem = LOOK_SECONDS, set[str](), ""
        for message in await self._read(lambda connection: outbox.waiting(connection, KINDS)):
            place = _place(message)
            if place in held_up:
                continue
            wait, own = self._wait(message), (message.due_at - datetime.now(UTC)).total_seconds()
            trouble = await self._deliver(message) if max(wait, own) <= 0 else None
            if trouble:
                wait = self._wait(message)
            failed_by_itself = trouble.of_its_own if trouble else own > 0 and message.attempts > 0
            if place and not failed_by_itself and (trouble or max(wait, own) > 0):
                held_up.add(place)  # the later ones wait as well: a channel reads in order
            if trouble or max(wait, own) > 0:
                soonest = min(soonest, max(wait, own, SHORTEST_SECONDS))
                self._problem = self._problem or (trouble.words if trouble else message.last_error)
        return soonest

    async def _deliver(self, message: Waiting) -> Trouble | None:
        """The edge of a message: one that can't be told keeps no other from being told."""
        method = _method(message)
        try:
            await self._teller.tell(message)
        except SlackApiError as error:
            word, called = word_of(error), method_of(error) or method
            if is_weather(error) or word in FATAL:
                for each in {method, called}:  # it may have come to another method than it began with
                    self._pace.hold(each, wait_asked(error))
                return await self._later(message, f"Slack answers {word} to {called}", held=True)
            return await self._later(message, f"Slack refuses {called}: {word}")
        except HeldError as error:
            return await self._later(message, str(error), held=True)
        except (ClientError, OSError, TimeoutError) as error:
            self._pace.hold(EVERYTHING)
            return await self._later(message, f"Slack can't be reached: {type(error).__name__} {error}", held=True)
        except ShutOutError as error:
            return await self._later(message, str(error))
        except Exception as error:
            log.exception("%s %s can't be told", message.kind, message.subject)
            return await self._later(message, f"{type(error).__name__}: {error}")
        self._pace.well(EVERYTHING, method)
        return None

    async def _later(self, message: Waiting, reason: str, *, held: bool = False) -> Trouble:
        """It waits: as long as the pace holds it, else a while of its own, longer each time."""
        log.warning("%s %s waits: %s", message.kind, message.subject, reason)
        now, seconds = datetime.now(UTC), 0.0 if held else None
        await self._write(partial(outbox.postpone, message=message, error=reason, now=now, seconds=seconds))
        return Trouble(reason, of_its_own=not held)

    def _wait(self, message: Waiting) -> float:
        """How long the pace keeps it."""
        return self._pace.wait(gates(message), EVERYTHING, _method(message))

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._ledger.read, look)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.wrap_future(self._ledger.submit(work))


def _place(message: Waiting) -> str:
    """The channel whose order a message belongs to; none for what is edited, or told to one person alone."""
    if message.kind == WHISPER or message.address.get("ts"):
        return ""
    return str(message.payload.get("channel") or "")


def _method(message: Waiting) -> str:
    """What it is sent by next."""
    if message.kind == WHISPER:
        return "chat.postEphemeral"
    return "chat.update" if message.address.get("ts") else "chat.postMessage"
