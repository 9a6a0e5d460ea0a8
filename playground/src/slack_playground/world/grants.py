"""Short-lived permissions: triggers for views, response URLs, and tickets for a socket."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from slack_playground.values import SlackError
from slack_playground.world.world import World

CODE_SECONDS = 600


@dataclass
class Trigger:
    """Leave to show a user one view, because that user just did something."""

    id: str
    user: str
    granted: float
    view_id: str = ""
    channel: str = ""
    """The conversation that the user was looking at."""
    used: bool = False


@dataclass
class ResponseUrl:
    """Leave to answer where something was done, a few times."""

    key: str
    path: str
    channel: str
    user: str
    granted: float
    message: str = ""
    thread_ts: str = ""
    uses: int = 0


@dataclass(frozen=True)
class Code:
    """Leave to get the bot's token, because a person allowed the app."""

    redirect_uri: str
    scope: str
    granted: float


class Grants:
    """All grants of one playground."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._triggers: dict[str, Trigger] = {}
        self.urls: dict[str, ResponseUrl] = {}
        self._tickets: dict[str, float] = {}
        self._codes: dict[str, Code] = {}
        self._n = 1000

    def trigger(self, user: str, view_id: str = "", channel: str = "") -> str:
        """A new trigger for what this user just did, looking at this conversation."""
        self._n += 1
        trigger_id = f"{self._n}.{self._n}.{secrets.token_hex(16)}"
        self._triggers[trigger_id] = Trigger(trigger_id, user, self._world.clock.now(), view_id, channel)
        return trigger_id

    def exchange(self, trigger_id: str) -> Trigger:
        """Use a trigger, once and in time."""
        trigger = self._triggers.get(trigger_id)
        if trigger is None:
            raise SlackError("invalid_trigger_id")
        if trigger.used:
            raise SlackError("exchanged_trigger_id")
        if self._world.clock.now() - trigger.granted > self._world.timings.trigger:
            raise SlackError("expired_trigger_id")
        return trigger

    def response_url(self, kind: str, channel: str, user: str, *, message: str = "", thread_ts: str = "") -> str:
        """A new address at which the bot may answer."""
        key = secrets.token_hex(12)
        path = f"/{kind}/{self._world.app.team_id}/{key}"
        self.urls[path] = ResponseUrl(
            key, path, channel, user, self._world.clock.now(), message=message, thread_ts=thread_ts
        )
        return self._world.base_url + path

    def answer(self, path: str) -> ResponseUrl:
        """Use a response_url, in time and not too often."""
        url = self.urls.get(path)
        if url is None or self._world.clock.now() - url.granted > self._world.timings.response_url:
            raise SlackError("expired_url")
        if url.uses >= self._world.timings.response_url_uses:
            raise SlackError("used_url")
        return url

    def code(self, redirect_uri: str, scope: str) -> str:
        """A code for oauth.v2.access."""
        code = f"{self._n}.{secrets.token_hex(16)}"
        self._codes[code] = Code(redirect_uri, scope, self._world.clock.now())
        return code

    def redeem_code(self, code: str) -> Code | None:
        """Use a code, once and within ten minutes."""
        grant = self._codes.pop(code, None)
        return grant if grant and self._world.clock.now() - grant.granted <= CODE_SECONDS else None

    def ticket(self) -> str:
        """A ticket for one connection, soon."""
        ticket = secrets.token_hex(16)
        self._tickets[ticket] = self._world.clock.now()
        return ticket

    def redeem(self, ticket: str) -> bool:
        """True if this ticket is valid; it is used up by that."""
        granted = self._tickets.pop(ticket, None)
        return granted is not None and self._world.clock.now() - granted <= self._world.timings.ticket
