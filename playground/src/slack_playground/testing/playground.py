"""`async with Playground() as slack:` a local Slack for one test, and the language that tests speak."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from slack_playground.people import transcript
from slack_playground.server import Server
from slack_playground.testing.people import ChannelView, Person
from slack_playground.values import Json, PlaygroundError
from slack_playground.world import manifest as manifests
from slack_playground.world.faults import Fault
from slack_playground.world.manifest import App
from slack_playground.world.workspace import Channel, User

T = TypeVar("T")

PATIENCE = 5.0  # seconds to wait for what a test expects to see


class NotSeen(AssertionError):
    """An expectation failed; the message holds the conversation as a person would have seen it."""


class Playground:
    """A local Slack. Point a bot at `api_url` with `bot_token` and `app_token`, then act as its users."""

    def __init__(
        self,
        manifest: str | Path | Json | None = None,
        *,
        patience: float = PATIENCE,
        **options: Any,  # noqa: ANN401 -- those of `Server`
    ) -> None:
        """The options are those of `Server`: `port`, `timings`, `journal`, `rate_limits`, `strict`, `latency`."""
        app = App() if manifest is None else _app(manifest)
        self.patience = patience
        self.server = Server(app, **options)

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.server.stop()

    @staticmethod
    def in_thread(manifest: str | Path | Json | None = None, **options: Any) -> AbstractContextManager[Any]:  # noqa: ANN401
        """The same without `await`, for plain test functions: `with Playground.in_thread() as slack:`."""
        from slack_playground.testing.threads import in_thread

        return in_thread(lambda: Playground(manifest, **options))

    # What points a bot at it

    @property
    def url(self) -> str:
        """The page's address."""
        return f"{self.server.world.base_url}/"

    @property
    def api_url(self) -> str:
        """The address of the Web API, the `base_url` of Slack's client."""
        if not self.server.world.base_url:
            # Slack's client would try an empty address for ever.
            words = (
                "This playground hasn't started. Use it inside `async with`, or in the test itself, not in a fixture."
            )
            raise PlaygroundError("not_started", words)
        return f"{self.server.world.base_url}/api/"

    @property
    def bot_token(self) -> str:
        """The bot's token."""
        return self.server.world.bot_token

    @property
    def app_token(self) -> str:
        """The token for Socket Mode."""
        return self.server.world.app_token

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables, for a bot in another process."""
        tokens = {"SLACK_BOT_TOKEN": self.bot_token, "SLACK_APP_TOKEN": self.app_token}
        return {"SLACK_API_URL": self.api_url} | tokens

    async def connected(self, connections: int = 1) -> None:
        """Wait until the bot has this many connections."""
        count = self.server.world.connections
        await self.eventually(lambda: count() == connections, f"there were {count()} connections, not {connections}")

    # People and places

    def user(self, name: str, **about: object) -> Person:
        """The user with this name, created on first use: `user("guest", is_restricted=True)`."""
        world = self.server.world
        user = world.workspace.find_user(name)
        if user is None:
            user = world.add_user(name, **about)
        elif about:
            world.set_user(user, **about)
        return Person(self, user)

    def channel(self, name: str, *, private: bool = False, members: list[Person] | None = None) -> ChannelView:
        """The channel with this name, created on first use, by default with everyone and the bot as members."""
        world = self.server.world
        channel = world.workspace.find_channel(name)
        if channel is None:
            ids = None if members is None else [person.id for person in members]
            channel = world.add_channel(name.removeprefix("#"), "private" if private else "public", ids)
        return ChannelView(self, channel)

    def group(self, handle: str, *people: Person) -> str:
        """Create a user group of these people; returns its id."""
        return self.server.world.set_group(handle, handle, [person.id for person in people]).id

    # What goes wrong, and time

    def fault(self, kind: str, method: str = "*", *, times: int = 1, after: int = 0, **parameters: object) -> Fault:
        """Add a fault: `fault("ratelimited", "chat.postMessage", times=2, after=1, retry_after=3)`."""
        return self.server.world.faults.add(kind, method, times=times, after=after, **parameters)

    async def disconnect(self, do: str = "refresh", connection: int | None = None) -> None:
        """End connections: `warning`, `refresh`, `link_disabled`, `drop`, `close`; or `freeze` and `thaw` them."""
        await self.server.sockets.control(do, connection)

    def revoke_token(self, *, revoked: bool = True) -> None:
        """Revoke the bot's tokens, or restore them."""
        self.server.world.revoked = revoked

    def advance(self, seconds: float) -> None:
        """Advance the clock for triggers, response URLs and scheduled messages."""
        self.server.world.clock.ahead += seconds

    # What happened

    def calls(self, method: str) -> list[Json]:
        """The calls of one method: `arguments`, `status`, `answer`, `ms`."""
        return [entry for entry in self.server.world.journal.select(kind="api") if entry["method"] == method]

    def journal(self, kind: str | None = None) -> list[Json]:
        """The journal's entries, all or of one kind."""
        return self.server.world.journal.select(kind=kind)

    def story(self) -> str:
        """All conversations and open views, as users saw them."""
        world = self.server.world
        space = world.workspace
        lines: list[str] = []
        for channel in space.channels.values():
            if channel.messages:
                lines += transcript.conversation(channel, None, space)
        for user in space.users.values():
            alone = [
                m for c in space.channels.values() for m in c.messages.values() if m.get("ephemeral_for") == user.id
            ]
            for message in alone:
                name = space.channels[message["channel"]].name or "direct message"
                lines += [f"── only {user.name} saw, in #{name} ──"]
                lines += [f"    {line}" for line in transcript.message_lines(message, space)]
            for view in [*space.modals.get(user.id, []), *([space.homes[user.id]] if user.id in space.homes else [])]:
                lines += [f"{user.name}:", *transcript.view_lines(view, space)]
        return "\n".join(lines) or "(no messages)"

    # Underneath

    def mark(self) -> str:
        """A moment in the order of messages."""
        return self.server.world.workspace.new_ts()

    async def eventually(
        self,
        condition: Callable[[], T],
        words: str,
        *,
        viewer: User | None = None,
        channel: Channel | None = None,
        now: Callable[[], str] | None = None,
    ) -> Any:  # noqa: ANN401 -- the condition's first true answer
        """The condition's first true result; fails with this text if there is none in time."""
        __tracebackhide__ = True
        answer = await self.server.world.feed.until(condition, self.patience)
        if not answer:
            shown = f"\nIt shows:\n{now() or '(nothing)'}" if now else ""
            raise self.failure(f"{words} within {self.patience:g} s{shown}", viewer=viewer, channel=channel)
        return answer

    def check(self, what: str, outcome: str, expect: str, *, viewer: User | None = None) -> None:
        """Fail unless this is the expected outcome."""
        __tracebackhide__ = True
        if outcome != expect:
            raise self.failure(f"{what} resulted in {outcome}, not {expect}", viewer=viewer)

    def failure(self, words: str, *, viewer: User | None = None, channel: Channel | None = None) -> NotSeen:
        """An error that shows what users saw and which calls Slack refused."""
        space = self.server.world.workspace
        shown = "\n".join(transcript.conversation(channel, viewer, space)) if channel else self.story()
        refused = [e for e in self.server.world.journal.select(kind="api") if e["answer"] and not e["answer"]["ok"]]
        wire = "".join(f"\n  {e['method']}: {_refusal(e['answer'])}" for e in refused[-5:])
        return NotSeen(f"{words}\n\n{shown}" + (f"\n\nSlack refused:{wire}" if wire else ""))


def _refusal(answer: Json) -> str:
    details = answer.get("response_metadata", {}).get("messages") or []
    return " ".join([answer["error"], *map(str, details)])


def _app(manifest: str | Path | Json) -> App:
    return manifests.parse(manifest) if isinstance(manifest, dict) else manifests.read(manifest)
