"""A tour: plays scenes over the real Socket Mode without a browser, and prints what each person typed and saw."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TextIO

from bot.demo.stage import CHANNEL, OPERATOR, Stage
from slack_playground.people import transcript
from slack_playground.people.markup import with_emoji
from slack_playground.testing.cards import Card, Shown
from slack_playground.testing.people import Person
from slack_playground.testing.playground import NotSeen
from slack_playground.values import Json
from slack_playground.world import elements

WIDTH = 80
NAME = 12  # columns of the names on the left
ATTACHED, BAR = "| ", "│ "  # before each line of an attachment: in the playground's transcript, and here
FACTS = " · "
BOLD, DIM, GREEN, RED, CYAN = "1", "2", "32", "31", "36"
IN_PROGRESS = "⏳"


class ExpectedError(Exception):
    """A check of the tour failed."""


class Tour:
    """Acts for the people in the scenes, follows the bot's messages, and checks what happened. It prints line by line,
    in color on a terminal unless NO_COLOR is set."""

    def __init__(self, stage: Stage, out: TextIO | None = None) -> None:
        self.stage = stage
        self._out = out or sys.stdout
        self._color = self._out.isatty() and not os.environ.get("NO_COLOR")
        self._bot = stage.slack.server.world.bot.name

    def person(self, name: str) -> Person:
        """The person of this name."""
        return self.stage.slack.user(name)

    async def play(self, scenes: Sequence[Scene]) -> bool:
        """Play these scenes; False if a check failed, which is printed."""
        started_at = time.monotonic()
        for number, scene in enumerate(scenes, start=1):
            title = (scene.__doc__ or "").split("\n")[0]
            rule = "─" * max(WIDTH - len(title) - len(str(number)) - 8, 4)
            self._write("", self._in(DIM, f"── {number} ── ") + self._in(BOLD, title) + self._in(DIM, f" {rule}"), "")
            try:
                await scene(self)
            except (ExpectedError, NotSeen) as error:
                self._write("", self._in(RED, f"✗ Scene {number}, {title!r}, failed."), *str(error).split("\n"))
                return False
        self._write("", f"{len(scenes)} scenes in {time.monotonic() - started_at:.1f} s. All checks passed.")
        return True

    async def asks(self, name: str, text: str, *expected: str) -> None:
        """Type a command whose answer only this person sees, and check that it contains the expected text."""
        card = await self.types(name, text)
        for part in expected:
            await card.shows(part)
        await card.is_private()
        self.shows(card, f"(only {name} sees this)")

    async def types(self, name: str, text: str) -> Card:
        """Type a slash command, or a mention of `@bot`; returns the answer."""
        self.acts(name, text.replace("@bot", f"@{self._bot}"))
        person = self.person(name)
        return await (person.slash(text) if text.startswith("/") else person.says(text))

    async def gives(self, name: str, text: str) -> Card:
        """Type a command that changes something, and follow its message to the end."""
        card = await self.types(name, text)
        await self.follows(card)
        return card

    async def presses(self, name: str, button: str, card: Card) -> Card:
        """Press a button and confirm it if it asks; returns the bot's next message to this person."""

        def find() -> Json | None:
            message = card.now()
            return message and next((each for each in _buttons(message) if each["text"]["text"] == button), None)

        slack, person = self.stage.slack, self.person(name)
        found: Json = await slack.eventually(find, f"there is no button {button!r}", now=lambda: card.text)
        confirms = bool(found.get("confirm"))
        self.acts(name, f"[ {button} ]", "  and confirms" if confirms else "")
        mark = slack.mark()
        await card.button(button).click(as_=person, confirm=True if confirms else None)
        return Card(slack, person.user, slack.channel(CHANNEL).channel, mark)

    async def message_with(self, button: str) -> Card:
        """The newest message in the channel with this button; waits for it."""
        channel = self.stage.slack.channel(CHANNEL).channel

        def find() -> Json | None:
            messages = reversed(channel.messages.values())
            return next((m for m in messages if any(b["text"]["text"] == button for b in _buttons(m))), None)

        message = await self.stage.slack.eventually(find, f"no message has a button {button!r}")
        return Card(self.stage.slack, self.person(OPERATOR).user, channel, "", ts=message["ts"])

    async def follows(self, card: Card) -> None:
        """Print each new headline of a message until the command on it has ended."""
        world, patience = self.stage.slack.server.world, self.stage.slack.patience
        ts, queue = (await card.message())["ts"], world.feed.listen(0)
        printed, ended = list[str](), False
        try:
            while not ended:
                async with asyncio.timeout(patience):
                    event = await queue.get()
                    while event["type"] != "message" or event["message"]["ts"] != ts:
                        event = await queue.get()
                lines = transcript.message_lines(event["message"], world.workspace)
                if lines[:1] != printed[:1]:
                    self.prints("" if printed else self._bot, lines[:1])
                printed = lines
                waits = any(button["text"]["text"] == "Approve" for button in _buttons(event["message"]))
                ended = not waits and IN_PROGRESS not in with_emoji(lines[0])
        except TimeoutError:
            text = f"Expected the command to end, but its message didn't change for {patience:g} s:"
            raise ExpectedError("\n".join([text, *printed])) from None
        finally:
            world.feed.forget(queue)
        self.prints("", printed[1:])

    def expect(self, what: str, found: object, expected: object) -> None:
        """Check a value; the tour ends if it's another."""
        if found != expected:
            raise ExpectedError(f"Expected {what} to be {expected!r}, but it is {found!r}.")

    def acts(self, name: str, text: str, after: str = "") -> None:
        """Print what a person types or presses, or a command in a shell."""
        self._write(self._in(CYAN, name.ljust(NAME)) + self._in(BOLD, text) + self._in(DIM, after))

    def shows(self, card: Shown, note: str = "") -> None:
        """Print a message as it is now."""
        self.prints(self._bot, card.lines(), note)

    def holds(self, text: str) -> None:
        """Print a check that passed."""
        self._write(" " * NAME + self._in(GREEN, "✓ ") + self._in(DIM, text))

    def prints(self, name: str, lines: Iterable[str], note: str = "") -> None:
        """Print lines of Slack or of a shell."""
        parts = [part for line in lines for part in _wrapped(with_emoji(line))] or [""]
        for number, line in enumerate(parts):
            self._write(self._in(DIM, name.ljust(NAME) if number == 0 else " " * NAME) + line)
        if note:
            self._write(" " * NAME + self._in(DIM, note))

    def _in(self, style: str, text: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self._color and text.strip() else text

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._out.write(f"{line.rstrip()}\n")
        self._out.flush()


Scene = Callable[[Tour], Awaitable[None]]


def _buttons(message: Json) -> list[dict[str, Any]]:
    found = [each.element for each in elements.walk(elements.message_blocks(message))]
    return [element for element in found if element["type"] == "button"]


def _wrapped(line: str) -> list[str]:
    """A line in parts that fit beside the names; facts between dots stay whole."""
    bar = BAR if line.startswith(ATTACHED) else ""
    text, room = line.removeprefix(ATTACHED if bar else ""), WIDTH - NAME - len(bar)
    parts = [""]
    for number, fact in enumerate(text.split(FACTS) if len(text) > room else [text]):
        if number and len(parts[-1]) + len(FACTS) + len(fact) <= room:
            parts[-1] += FACTS + fact
        else:
            parts += textwrap.wrap(fact, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
    return [bar + part for part in parts[1:]]
