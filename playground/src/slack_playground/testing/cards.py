"""Messages, modals and App Home as tests use them, and their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slack_playground.people import transcript
from slack_playground.people.interactions import InteractionPlace as Surface
from slack_playground.socket_mode.sockets import ACKED
from slack_playground.values import Json, PlaygroundError
from slack_playground.world import elements
from slack_playground.world.elements import Found
from slack_playground.world.workspace import Channel, User

if TYPE_CHECKING:
    from slack_playground.testing.people import Person
    from slack_playground.testing.playground import Playground


class Shown:
    """A message or view with elements, as one user sees it."""

    def __init__(self, slack: Playground, user: User) -> None:
        self._slack, self._user = slack, user

    async def surface(self, user: User) -> Surface:
        """The message or view, for the user who acts."""
        raise NotImplementedError

    def lines(self) -> list[str]:
        """The lines that it shows now; empty while it isn't there."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text that it shows now."""
        return "\n".join(self.lines())

    async def shows(self, text: str) -> None:
        """Wait until it shows this text."""
        __tracebackhide__ = True
        await self._slack.eventually(
            lambda: text in self.text, f"{self} did not show {text!r}", viewer=self._user, now=lambda: self.text
        )

    becomes = shows

    async def lacks(self, text: str) -> None:
        """Wait until it no longer shows this text."""
        await self._slack.eventually(
            lambda: self.lines() and text not in self.text,
            f"{self} still shows {text!r}",
            viewer=self._user,
            now=lambda: self.text,
        )

    def element(self, name: str) -> Element:
        """The element with this text, placeholder, label or action_id."""
        return Element(self._slack, self, name, self._user)

    button = menu = element


class Card(Shown):
    """The first message that the bot shows this user after an action; it may arrive after the ack."""

    def __init__(
        self, slack: Playground, user: User, channel: Channel, mark: str, *, ts: str = "", said: str = ""
    ) -> None:
        super().__init__(slack, user)
        self._channel, self._mark, self._ts, self.said = channel, mark, ts, said

    def __str__(self) -> str:
        return "the bot's message" if self._mark else "the message"

    def _find(self) -> Json | None:
        if self._ts:
            return self._channel.messages.get(self._ts)
        world = self._slack.server.world
        private = world.workspace.direct([world.bot.id, self._user.id])
        for channel in (self._channel, private):
            for message in transcript.visible(channel, self._user) if channel else ():
                if message["ts"] > self._mark and message.get("bot_id") == world.app.bot_id:
                    self._channel, self._ts = world.workspace.channels[message["channel"]], message["ts"]
                    return message
        return None

    def now(self) -> Json | None:
        """The message as it is now; None while it isn't there."""
        return self._find()

    async def message(self) -> Json:
        """Wait for the message; returns it as the Web API has it."""
        message: Json = await self._slack.eventually(self._find, f"{self} did not come", viewer=self._user)
        return message

    def lines(self) -> list[str]:
        message = self._find()
        return transcript.message_lines(message, self._slack.server.world.workspace) if message else []

    async def surface(self, user: User) -> Surface:
        message = await self.message()
        channel = self._slack.server.world.workspace.channels[message["channel"]]
        if user.id not in channel.members or message.get("ephemeral_for") not in (None, user.id):
            raise self._slack.failure(f"{user.name} does not see {self}", viewer=user)
        return Surface(user, elements.message_blocks(message), channel, message)

    async def came(self) -> None:
        """Wait until the message has arrived."""
        if not self._ts:
            await self.message()

    async def is_private(self) -> None:
        """Check that only this user sees it."""
        message = await self.message()
        if message.get("ephemeral_for") != self._user.id:
            raise self._slack.failure(f"{self} is seen by everybody", viewer=self._user)

    async def is_gone(self) -> None:
        """Wait until the message has arrived and has been deleted."""
        await self.came()
        await self._slack.eventually(lambda: self._find() is None, f"{self} is still there", viewer=self._user)

    async def thread_shows(self, text: str) -> None:
        """Wait until a reply in its thread shows this text."""
        message = await self.message()
        space = self._slack.server.world.workspace
        channel, parent = space.channels[message["channel"]], message.get("thread_ts") or message["ts"]

        def there() -> bool:
            shown = transcript.visible(channel, self._user)
            replies = (m for m in shown if m.get("thread_ts") == parent != m["ts"])
            return any(text in "\n".join(transcript.message_lines(m, space)) for m in replies)

        await self._slack.eventually(there, f"no reply under {self} shows {text!r}", viewer=self._user)

    async def has_reaction(self, name: str) -> None:
        """Wait for this reaction on it, or on what the user said."""

        def there() -> bool:
            message = self._channel.messages.get(self.said) if self.said else self._find()
            return any(r["name"] == name for r in (message or {}).get("reactions") or [])

        await self._slack.eventually(there, f"there is no :{name}:", viewer=self._user)


class View(Shown):
    def _view(self) -> Json | None:
        raise NotImplementedError

    def lines(self) -> list[str]:
        view = self._view()
        return transcript.view_lines(view, self._slack.server.world.workspace) if view else []

    async def surface(self, user: User) -> Surface:
        view = await self._slack.eventually(self._view, f"{self} is not there", viewer=self._user)
        return Surface(user, view["blocks"], view=view)

    async def fill(self, name: str, value: object) -> None:
        """Type or choose in the input with this label and wait for the action that it dispatches."""
        await Element(self._slack, self, name, self._user).use(value)


class Modal(View):
    def __init__(self, slack: Playground, user: User, view_id: str) -> None:
        super().__init__(slack, user)
        self.view_id = view_id

    def __str__(self) -> str:
        return "the modal"

    def _view(self) -> Json | None:
        return self._slack.server.world.workspace.view(self.view_id)

    async def submit(self, *, expect: str = ACKED) -> Json:
        """Submit it; returns the result, with `errors` if the bot rejected it."""
        try:
            answer = await self._slack.server.acting.submit(self._user, self.view_id, {})
        except PlaygroundError as error:
            answer = {"outcome": error.error, **error.fields}
        self._slack.check("the submission", str(answer["outcome"]), expect, viewer=self._user)
        if "error" in answer:
            raise self._slack.failure(f"Slack refused the answer: {answer['details']}", viewer=self._user)
        return answer

    async def close(self, *, everything: bool = False) -> None:
        """Close it, or all modals."""
        await self._slack.server.acting.close(self._user, self.view_id, everything=everything)

    async def is_closed(self) -> None:
        """Wait until it's closed."""
        await self._slack.eventually(lambda: self._view() is None, "the modal is still open", viewer=self._user)


class Home(View):
    def __str__(self) -> str:
        return "the Home"

    def _view(self) -> Json | None:
        return self._slack.server.world.workspace.homes.get(self._user.id)


class Element:
    """One element; each use looks it up again, because messages change."""

    def __init__(self, slack: Playground, shown: Shown, name: str, user: User) -> None:
        self._slack, self._shown, self._name, self._user = slack, shown, name, user

    async def click(self, as_: Person | None = None, *, confirm: bool | None = None, expect: str = ACKED) -> None:
        """Click it. If it asks for confirmation, `confirm` is the answer."""
        await self.use(None, as_, confirm=confirm, expect=expect)

    async def choose(self, value: object, as_: Person | None = None, *, expect: str = ACKED) -> None:
        """Choose an option by its value or text, a user, a channel or a date; a list for several."""
        await self.use(value, as_, expect=expect)

    async def types(self, text: str, as_: Person | None = None) -> None:
        await self.use(text, as_)

    async def offers(self, query: str = "") -> list[str]:
        """The options that an external select offers for this query."""
        surface, found = await self._there(self._user)
        answer = await self._slack.server.acting.options(surface, found, query)
        if answer["outcome"] != ACKED or not answer["ok"]:
            raise self._slack.failure(f"{self._name!r} offered no options: {answer}", viewer=self._user)
        return [option["text"]["text"] for option in elements.options(answer)]

    async def is_gone(self) -> None:
        """Wait for the message, then until this element is gone from it."""
        if isinstance(self._shown, Card):
            await self._shown.came()

        def gone() -> bool:
            return not any(_answers_to(found, self._name) for found in elements.walk(self._blocks()))

        await self._slack.eventually(gone, f"{self._name!r} is still there", viewer=self._user)

    async def use(
        self, value: object, as_: Person | None = None, *, confirm: bool | None = None, expect: str = ACKED
    ) -> None:
        """Use it as a person would."""
        user = as_.user if as_ else self._user
        surface, found = await self._there(user)
        asked = found.element.get("confirm")
        if asked and confirm is None:
            words = (
                f"{self._name!r} asks for confirmation: {asked['title']['text']!r}. Pass confirm=True or confirm=False"
            )
            raise self._slack.failure(words, viewer=user)
        if not asked and confirm is not None:
            raise self._slack.failure(f"{self._name!r} doesn't ask for confirmation", viewer=user)
        if asked and not confirm:
            return
        try:
            outcome = await self._slack.server.acting.act(surface, found, value, confirmed=bool(confirm))
        except PlaygroundError as error:
            raise self._slack.failure(error.message, viewer=user) from error
        if outcome.outcome != "none":
            self._slack.check(f"using {self._name!r}", outcome.outcome, expect, viewer=user)

    async def _there(self, user: User) -> tuple[Surface, Found]:
        await self._shown.surface(user)
        find: Callable[[], Found | None] = lambda: next(  # noqa: E731
            (found for found in elements.walk(self._blocks()) if _answers_to(found, self._name)), None
        )
        words = f"there is no {self._name!r} on {self._shown}"
        found = await self._slack.eventually(find, words, viewer=user, now=lambda: self._shown.text)
        return await self._shown.surface(user), found

    def _blocks(self) -> list[Json]:
        if isinstance(self._shown, Card):
            message = self._shown._find()  # noqa: SLF001 -- an element is part of its card
            return elements.message_blocks(message) if message else []
        assert isinstance(self._shown, View)  # noqa: S101
        view = self._shown._view()  # noqa: SLF001
        return view["blocks"] if view else []


def _answers_to(found: Found, name: str) -> bool:
    """True if this is the element's text, placeholder, label or id."""
    element, block = found.element, found.block
    words = [element["action_id"], block["block_id"], element.get("accessibility_label")]
    words += [(element.get(key) or {}).get("text") for key in ("text", "placeholder")]
    words += [(block.get("label") or {}).get("text") if block["type"] == "input" else None]
    return name in words
