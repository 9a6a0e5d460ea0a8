"""The guide of a tour: acts for the people in a scene, follows the bot's messages, and checks what happened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bot.demo.home import WORKER
from bot.demo.stage import CHANNEL, Stage
from bot.demo.transcript import Transcript
from slack_playground.people import transcript
from slack_playground.people.markup import with_emoji
from slack_playground.testing.cards import Card, Shown
from slack_playground.testing.people import Person
from slack_playground.values import Json
from slack_playground.world import elements
from supervisor_core.daemon.control.client import ask
from supervisor_core.processes.manager import HostProcesses

IN_PROGRESS = "⏳"
APPROVE = "Approve"


class ExpectedError(Exception):
    """A check of the tour failed."""


@dataclass(frozen=True, slots=True)
class Guide:
    """The people, the bot and the transcript of one scene."""

    stage: Stage
    page: Transcript

    def person(self, name: str) -> Person:
        """The person of this name."""
        return self.stage.slack.user(name)

    @property
    def bot(self) -> str:
        """The bot's name."""
        return self.stage.slack.server.world.bot.name

    async def asks(self, name: str, text: str, *expected: str) -> Card:
        """Type a command whose answer only this person sees, and check that it contains the expected text."""
        self.page.types(name, text)
        card = await self.person(name).slash(text)
        for words in expected:
            await card.shows(words)
        await card.is_private()
        self.shows(card, f"(only {name} sees this)")
        return card

    def shows(self, card: Shown, note: str = "") -> None:
        """Print a message as it is now."""
        self.page.shows(self.bot, card.lines(), note)

    async def presses(self, name: str, button: str, card: Card) -> Card:
        """Press a button and confirm it if it asks; returns the bot's next message to this person."""
        found = await self._button(card, button)
        confirm = found.get("confirm")
        self.page.presses(name, button, confirms=bool(confirm))
        mark = self.stage.slack.mark()
        person = self.person(name)
        await card.button(button).click(as_=person, confirm=True if confirm else None)
        return Card(self.stage.slack, person.user, self.stage.slack.channel(CHANNEL).channel, mark)

    async def _button(self, card: Card, name: str) -> Json:
        def find() -> Json | None:
            message = card.now()
            return message and next((b for b in _buttons(message) if b["text"]["text"] == name), None)

        found: Json = await self.stage.slack.eventually(find, f"there is no button {name!r}", now=lambda: card.text)
        return found

    async def message_with(self, button: str) -> Card:
        """The newest message in the channel with this button; waits for it."""
        channel = self.stage.slack.channel(CHANNEL).channel

        def find() -> Json | None:
            messages = reversed(channel.messages.values())
            return next((m for m in messages if any(b["text"]["text"] == button for b in _buttons(m))), None)

        message = await self.stage.slack.eventually(find, f"no message has a button {button!r}")
        return Card(self.stage.slack, self.person("operator").user, channel, "", ts=message["ts"])

    async def follows(self, card: Card) -> None:
        """Print each new headline of a message until the command on it has ended."""
        patience = self.stage.slack.patience
        async with self._changes(card) as next_change:
            shown: list[str] = []
            ended = False
            while not ended:
                try:
                    async with asyncio.timeout(patience):
                        after, message = await next_change()
                except TimeoutError:
                    words = f"Expected the command to end, but its message didn't change for {patience:g} s:"
                    raise ExpectedError("\n".join([words, *shown])) from None
                lines = transcript.message_lines(message, self.stage.slack.server.world.workspace)
                if lines[:1] != shown[:1]:
                    self.page.shows(f"   +{after:.1f} s" if shown else self.bot, lines[:1])
                shown = lines
                ended = _ended(message, lines[0])
        self.page.shows("", shown[1:])

    @asynccontextmanager
    async def _changes(self, card: Card) -> AsyncIterator[Callable[[], Awaitable[tuple[float, Json]]]]:
        """The message after each change, with the seconds since the first one."""
        world = self.stage.slack.server.world
        ts = (await card.message())["ts"]
        queue = world.feed.listen(0)
        begun: list[float] = []

        async def next_change() -> tuple[float, Json]:
            while True:
                event = await queue.get()
                if event["type"] == "message" and event["message"]["ts"] == ts:
                    begun.append(event["at"])
                    return event["at"] - begun[0], event["message"]

        try:
            yield next_change
        finally:
            world.feed.forget(queue)

    async def audit(self) -> list[dict[str, Any]]:
        """The audit trail, oldest first."""
        rows: list[dict[str, Any]] = json.loads(await self.stage.home.supervisor("audit", "--json"))
        return rows[::-1]

    async def processes(self) -> list[int]:
        """The pids of the worker's process tree."""
        members = await asyncio.to_thread(HostProcesses(self.stage.home.state_dir).members, WORKER)
        return [member.pid for member in members]

    async def state(self) -> str:
        """The worker's state, as the daemon reports it."""
        status = await asyncio.to_thread(ask, str(self.stage.home.state_dir), {"do": "status"})
        return str(status["workers"][0]["state"])

    def expect(self, what: str, found: object, expected: object) -> None:
        """Check a value; the tour ends if it's another."""
        if found != expected:
            raise ExpectedError(f"Expected {what} to be {expected!r}, but it is {found!r}.")


def _buttons(message: Json) -> list[Json]:
    found = [each.element for each in elements.walk(elements.message_blocks(message))]
    return [element for element in found if element["type"] == "button"]


def _ended(message: Json, headline: str) -> bool:
    waiting = any(button["text"]["text"] == APPROVE for button in _buttons(message))
    return not waiting and IN_PROGRESS not in with_emoji(headline)
