"""People who act and channels that show messages, in the words of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slack_playground.people import transcript
from slack_playground.socket_mode.sockets import ACKED
from slack_playground.testing.cards import Card, Home, Modal
from slack_playground.values import Json, PlaygroundError
from slack_playground.world.workspace import Channel, User

if TYPE_CHECKING:
    from slack_playground.testing.playground import Playground

NOUN = ("message", "messages")


class Person:
    """One user who does things."""

    def __init__(self, slack: Playground, user: User) -> None:
        self._slack, self.user = slack, user

    @property
    def id(self) -> str:
        return self.user.id

    @property
    def mention(self) -> str:
        """The markup that mentions this user."""
        return f"<@{self.user.id}>"

    async def slash(self, text: str, *, in_: ChannelView | str | None = None, expect: str = ACKED) -> Card:
        """Give a slash command; what it gives back is what the bot then shows."""
        channel = self._where(in_)
        mark = self._slack.mark()
        try:
            outcome = await self._slack.server.people.slash(self.user, channel, text)
        except PlaygroundError as error:
            raise self._slack.failure(error.message, viewer=self.user) from error
        self._slack.check(f"{text!r}", outcome.outcome, expect, viewer=self.user)
        return Card(self._slack, self.user, channel, mark)

    async def says(self, text: str, *, in_: ChannelView | str | None = None, thread: Card | str | None = None) -> Card:
        """Say something; what it gives back is what the bot then answers. `@bot` mentions the bot."""
        parent = await thread.message() if isinstance(thread, Card) else {"ts": thread or ""}
        place = self._slack.server.world.workspace.channels.get(parent.get("channel", ""))
        channel = self._where(ChannelView(self._slack, place) if place and in_ is None else in_)
        thread_ts = parent["ts"]
        mark = self._slack.mark()
        bot = self._slack.server.world.bot
        words = text.replace("@bot", f"@{bot.name}")
        try:
            said = self._slack.server.people.post(self.user, channel, words, thread_ts=thread_ts)
        except PlaygroundError as error:
            raise self._slack.failure(error.message, viewer=self.user) from error
        return Card(self._slack, self.user, channel, mark, said=said["ts"])

    async def modal(self, text: str = "") -> Modal:
        """The modal on top, with this text in it where one is given; waits for it."""
        space = self._slack.server.world.workspace

        def top() -> Json | None:
            stack = space.modals.get(self.user.id) or [{}]
            lines = "\n".join(transcript.view_lines(stack[-1], space)) if stack[-1] else ""
            return stack[-1] if stack[-1] and text in lines else None

        words = f"{self.user.name} saw no modal" + (f" with {text!r}" if text else "")
        view = await self._slack.eventually(top, words, viewer=self.user)
        return Modal(self._slack, self.user, str(view["id"]))

    async def has_no_modal(self) -> None:
        """All modals are closed; waits for it."""
        space = self._slack.server.world.workspace
        words = f"{self.user.name} still has a modal open"
        await self._slack.eventually(lambda: not space.modals.get(self.user.id), words, viewer=self.user)

    async def opens_home(self) -> Home:
        self._slack.server.people.home(self.user)
        return Home(self._slack, self.user)

    def joins_workspace(self) -> None:
        """Be new in the workspace; the app gets `team_join`."""
        self._slack.server.world.greet(self.user)

    async def shortcut(
        self, callback_id: str, *, on: Card | None = None, in_: ChannelView | str | None = None, expect: str = ACKED
    ) -> None:
        """Use a shortcut of the app, or one on a message; `in_`: the conversation that they look at meanwhile."""
        where: Json = {"channel": self._where(in_).id} if in_ else {}
        if on is not None:
            message = await on.message()
            where = {"channel": message["channel"], "ts": message["ts"]}
        outcome = await self._slack.server.acting.shortcut(self.user, callback_id, where)
        self._slack.check(f"the shortcut {callback_id!r}", outcome.outcome, expect, viewer=self.user)

    async def reacts(self, card: Card, name: str) -> None:
        message = await card.message()
        channel = self._slack.server.world.workspace.channel(message["channel"])
        self._slack.server.people.react(self.user, channel, message["ts"], name, remove=False)

    async def pins(self, card: Card) -> None:
        message = await card.message()
        channel = self._slack.server.world.workspace.channel(message["channel"])
        self._slack.server.people.pin(self.user, channel, message["ts"], remove=False)

    def shares(self, name: str, content: bytes, *, in_: ChannelView | str | None = None) -> str:
        """Share a file; returns the message's ts."""
        message = self._slack.server.people.upload(self.user, self._where(in_), name, content, "")
        return str(message["ts"])

    async def sees(self, text: str, *, in_: ChannelView | str | None = None) -> Card:
        """A message with this text, also one that only this user sees; waits for it."""
        channel = self._where(in_)
        return await ChannelView(self._slack, channel).shows(text, as_=self)

    async def does_not_see(self, text: str, *, in_: ChannelView | str | None = None) -> None:
        """There is no such message now."""
        await ChannelView(self._slack, self._where(in_)).does_not_show(text, as_=self)

    def dm(self) -> ChannelView:
        """The direct message between this user and the bot."""
        world = self._slack.server.world
        return ChannelView(self._slack, world.direct([world.bot.id, self.user.id]))

    def _where(self, place: ChannelView | str | None) -> Channel:
        channel = place.channel if isinstance(place, ChannelView) else self._slack.channel(place or "ops").channel
        if self.user.id not in channel.members:
            raise self._slack.failure(f"{self.user.name} is not a member of #{channel.name}", viewer=self.user)
        return channel


class ChannelView:
    """One channel, and what it shows."""

    def __init__(self, slack: Playground, channel: Channel) -> None:
        self._slack, self.channel = slack, channel

    @property
    def id(self) -> str:
        return self.channel.id

    async def shows(self, *what: int | str, as_: Person | None = None) -> Card:
        """`shows("text")`: some message has it. `shows(1, "text")`: exactly so many have it. `shows(2, "messages")`:
        there are exactly so many. Waits for it; gives back the last of them."""
        count, text = _asked(what)
        space = self._slack.server.world.workspace
        viewer = as_.user if as_ else None

        def there() -> list[Json] | None:
            found = transcript.matching(self.channel, viewer, text, space)
            fits = len(found) == count if count is not None else bool(found)
            return (found or [{}]) if fits else None

        number = "a message" if count is None else f"exactly {count} message{'s' * (count != 1)}"
        words = f"#{self.channel.name or 'the direct message'} did not show {number}" + (f" with {text!r}" * bool(text))
        found = await self._slack.eventually(there, words, viewer=viewer, channel=self.channel)
        ts = str(found[-1].get("ts", ""))
        author = viewer or self._slack.server.world.bot
        return Card(self._slack, author, self.channel, "", ts=ts)

    async def does_not_show(self, text: str, *, as_: Person | None = None) -> None:
        """There is no such message now."""
        viewer = as_.user if as_ else None
        if transcript.matching(self.channel, viewer, text, self._slack.server.world.workspace):
            name = self.channel.name or "the direct message"
            raise self._slack.failure(f"#{name} shows {text!r}", viewer=viewer, channel=self.channel)

    def archive(self) -> ChannelView:
        """Close the channel for good."""
        self._slack.server.world.set_channel(self.channel, archived=True)
        return self

    def invite(self, *people: Person) -> ChannelView:
        """Make these people members; without any, the bot."""
        world = self._slack.server.world
        for user in [person.user for person in people] or [world.bot]:
            world.join(self.channel, user)
        return self

    def without_bot(self) -> ChannelView:
        """Take the bot out."""
        world = self._slack.server.world
        world.leave(self.channel, world.bot)
        return self

    def message(self, ts: str) -> Card:
        """The message of this ts."""
        return Card(self._slack, self._slack.server.world.bot, self.channel, "", ts=ts)

    def messages(self) -> list[Json]:
        """The messages that all can see, as the Web API has them."""
        return transcript.visible(self.channel, None)

    def conversation(self, as_: Person | None = None) -> str:
        """All of it as plain text."""
        viewer = as_.user if as_ else None
        return "\n".join(transcript.conversation(self.channel, viewer, self._slack.server.world.workspace))


def _asked(what: tuple[int | str, ...]) -> tuple[int | None, str]:
    match what:
        case (str(text),):
            return None, text
        case (int(count),):
            return count, ""
        case (int(count), str(text)):
            return count, "" if text in NOUN else text
    raise TypeError('shows("text"), shows(1, "text") or shows(2, "messages")')
