"""The tour: a story told without a browser over the real Socket Mode, each step of it checked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bot.demo.home import WORKER
from bot.demo.stage import APPROVER, CHANNEL, OPERATOR, VIEWER, Stage
from bot.demo.transcript import Transcript
from slack_playground.people import transcript
from slack_playground.testing.cards import Card
from slack_playground.testing.people import Person
from slack_playground.testing.playground import NotSeen
from supervisor_core.processes.manager import HostProcesses

LABEL = "hotfix test"
SLOW = "slow since noon"
WHOLE = "The trail is whole"


class ExpectedError(Exception):
    """A step came to something else."""


@dataclass(frozen=True, slots=True)
class Guide:
    """The people, the bot and the transcript that a scene uses."""

    stage: Stage
    page: Transcript

    def person(self, name: str) -> Person:
        """Somebody who acts."""
        return self.stage.slack.user(name)

    @property
    def bot(self) -> str:
        """The bot's name."""
        return self.stage.slack.server.world.bot.name

    async def asks(self, name: str, text: str, *expected: str) -> Card:
        """Somebody gives a command, and alone sees an answer with all of this in it."""
        self.page.types(name, text)
        card = await self.person(name).slash(text)
        for words in expected:
            await card.shows(words)
        await card.is_private()
        self.page.shows(self.bot, card.lines(), f"(only {name} sees this)")
        return card

    async def follows(self, card: Card, last: str) -> None:
        """Watch a card change until this stands on it; each change is shown when it comes."""
        patience = self.stage.slack.patience
        async with self._changes(card) as next_change:
            shown: list[str] = []
            while last not in "\n".join(shown):
                try:
                    async with asyncio.timeout(patience):
                        after, lines = await next_change()
                except TimeoutError:
                    words = f"Expected the card to come to {last!r}, but it stayed as it is for {patience:g} s:"
                    raise ExpectedError("\n".join([words, *shown])) from None
                if lines[:1] != shown[:1]:
                    self.page.shows(f"   +{after:.1f} s" if shown else self.bot, lines[:1])
                shown = lines
        self.page.shows("", shown[1:])

    @asynccontextmanager
    async def _changes(self, card: Card) -> AsyncIterator[Callable[[], Awaitable[tuple[float, list[str]]]]]:
        """The text of a card after each change, with the seconds since it appeared."""
        world = self.stage.slack.server.world
        message = await card.message()
        queue = world.feed.listen(0)
        begun: list[float] = []

        async def next_change() -> tuple[float, list[str]]:
            while True:
                event = await queue.get()
                if event["type"] == "message" and event["message"]["ts"] == message["ts"]:
                    begun.append(event["at"])
                    return event["at"] - begun[0], transcript.message_lines(event["message"], world.workspace)

        try:
            yield next_change
        finally:
            world.feed.forget(queue)

    async def audit(self) -> list[dict[str, Any]]:
        """The audit trail, oldest first."""
        rows: list[dict[str, Any]] = json.loads(await self.stage.home.supervisor("audit", "--json"))
        return rows[::-1]

    async def processes(self) -> list[int]:
        """The PIDs of the worker's process tree, by a fresh look."""
        members = await asyncio.to_thread(HostProcesses(self.stage.home.state_dir).members, WORKER)
        return [member.pid for member in members]

    def expect(self, what: str, found: object, expected: object) -> None:
        """This is so, or the tour ends with what was expected."""
        if found != expected:
            raise ExpectedError(f"Expected {what} to be {expected!r}, but it is {found!r}.")


async def status(guide: Guide) -> None:
    """How are the workers?"""
    await guide.asks(OPERATOR, "/supervisor status", WORKER, "running")


async def pause(guide: Guide) -> None:
    """Pause one, and say why"""
    text = f"/supervisor pause {LABEL}"
    guide.page.types(OPERATOR, text)
    card = await guide.person(OPERATOR).slash(text)
    await guide.follows(card, f"{WORKER}: paused")
    await card.shows(f"label: {LABEL}")
    await guide.stage.slack.channel(CHANNEL).shows(1, "message")
    guide.expect("what is left of the worker's processes", await guide.processes(), [])
    guide.page.holds(f"one message in #{CHANNEL}, which kept itself up to date")
    guide.page.holds("nothing of the worker's process tree is left")


async def refused(guide: Guide) -> None:
    """Somebody tries who may not"""
    await guide.asks(VIEWER, "/supervisor pause", "is for operators")
    await guide.stage.slack.channel(CHANNEL).shows(1, "message")
    guide.page.holds("nothing happened, and nobody else was bothered")


async def trail(guide: Guide) -> None:
    """Who was it? The audit trail knows"""
    guide.page.runs("supervisor audit")
    rows = await guide.audit()
    table = [("UTC", "ACTION", "OUTCOME", "LABEL")]
    table += [(row["created_at"][11:19], row["action"], row["outcome"], row["label"] or "") for row in rows]
    guide.page.table(table, "(four of its columns)")
    guide.expect("the actions in the audit trail", [row["action"] for row in rows], ["PAUSE", "REFUSED"])
    guide.expect("the label of the pause", rows[0]["label"], f"{OPERATOR} - {LABEL}")
    guide.expect("the outcome of the pause", rows[0]["outcome"], "success")
    who = guide.person(OPERATOR).id
    guide.expect("the actor of the pause", rows[0]["actor"].rpartition("/")[2], who)
    guide.expect("the label of the refusal", rows[1]["label"], VIEWER)
    guide.page.holds(f"it was the {OPERATOR} ({rows[0]['actor']})")


async def resume(guide: Guide) -> None:
    """Back to work, by a mention"""
    guide.page.types(OPERATOR, f"@{guide.bot} resume")
    card = await guide.person(OPERATOR).says("@bot resume")
    await guide.follows(card, f"{WORKER}: running again")
    pids = await guide.processes()
    guide.expect("the number of the worker's processes", len(pids), 1)
    guide.page.holds(f"it runs, as pid {pids[0]}")


async def restart(guide: Guide) -> None:
    """The overview has buttons, and they ask before they do anything"""
    overview = await guide.asks(OPERATOR, "/supervisor", "running")
    before = await guide.processes()
    mark = guide.stage.slack.mark()
    guide.page.presses(OPERATOR, "Restart", f"{WORKER}? Yes, restart it.")
    await overview.button(f"Restart {WORKER}").click(confirm=True)
    card = Card(guide.stage.slack, guide.person(OPERATOR).user, guide.stage.slack.channel(CHANNEL).channel, mark)
    await guide.follows(card, f"{WORKER}: restarted")
    after = await guide.processes()
    guide.expect("the number of the worker's processes", len(after), 1)
    guide.expect("what is left of the old ones", sorted(set(before) & set(after)), [])
    guide.page.holds("the old process is gone, and a new one runs")


async def rollback(guide: Guide) -> None:
    """Code goes back once somebody else agrees"""
    text = f"/supervisor rollback 1 {SLOW}"
    guide.page.types(OPERATOR, text)
    card = await guide.person(OPERATOR).slash(text)
    await card.shows("1 commit is taken back")
    guide.page.shows(guide.bot, card.lines())
    guide.page.presses(OPERATOR, "Approve", "Yes, approve it.")
    await card.button("Approve").click(confirm=True)
    own = await guide.person(OPERATOR).sees("You asked for it yourself")
    guide.page.shows(guide.bot, own.lines(), f"(only {OPERATOR} sees this)")
    guide.page.presses(APPROVER, "Approve", "Yes, approve it.")
    await card.button("Approve").click(as_=guide.person(APPROVER), confirm=True)
    await guide.follows(card, f"{WORKER}: rolled back")
    guide.page.holds("what was shown is what was done, and the card names who agreed")
    await card.thread_shows(f"@{OPERATOR} @{APPROVER} {WORKER}: rolled back")
    guide.page.holds("both were told of it once, in its thread")


async def undo(guide: Guide) -> None:
    """A button takes it back again, once somebody else agrees"""
    card = await guide.stage.slack.channel(CHANNEL).shows("approved by")
    mark = guide.stage.slack.mark()
    guide.page.presses(OPERATOR, "Undo", f"{WORKER}? Yes, undo it.")
    await card.button("Undo").click(as_=guide.person(OPERATOR), confirm=True)
    done = Card(guide.stage.slack, guide.person(OPERATOR).user, guide.stage.slack.channel(CHANNEL).channel, mark)
    await done.shows("needs an approval")
    guide.page.shows(guide.bot, done.lines())
    guide.page.presses(APPROVER, "Approve", "Yes, approve it.")
    await done.button("Approve").click(as_=guide.person(APPROVER), confirm=True)
    await guide.follows(done, f"{WORKER}: undone")
    await card.becomes("was undone by")
    guide.page.holds("every file is as it was, and the first card says so")


async def mistake(guide: Guide) -> None:
    """A slip of the finger is asked about, never guessed"""
    await guide.asks(OPERATOR, "/supervisor puase", f"/supervisor pause {WORKER}")


async def helped(guide: Guide) -> None:
    """What can one say?"""
    await guide.asks(OPERATOR, "/supervisor help pause", "pause [target]")


async def whole(guide: Guide) -> None:
    """Has anybody touched the trail?"""
    guide.page.runs("supervisor audit verify")
    said = await guide.stage.home.supervisor("audit", "verify")
    guide.page.shows("", said.split("\n"))
    guide.expect("the verdict", said[: len(WHOLE)], WHOLE)


Scene = Callable[[Guide], Awaitable[None]]

SCENES: tuple[Scene, ...] = (
    status,
    pause,
    refused,
    trail,
    resume,
    restart,
    rollback,
    undo,
    mistake,
    helped,
    whole,
)
"""In the order in which they are played. The first line of each one's docstring is its title."""


async def tour(stage: Stage, scenes: Sequence[Scene] = SCENES) -> bool:
    """Play these scenes; False where one came to something else than was expected, which is said."""
    page = Transcript()
    begun = time.monotonic()
    for number, scene in enumerate(scenes, start=1):
        title = (scene.__doc__ or "").split("\n")[0]
        page.scene(number, title)
        try:
            await scene(Guide(stage, page))
        except (ExpectedError, NotSeen) as error:
            page.fails(f"Scene {number}, {title!r}, came to something else.\n{error}")
            return False
    page.ends(f"{len(scenes)} scenes in {time.monotonic() - begun:.1f} s, and each came to what was expected.")
    return True
