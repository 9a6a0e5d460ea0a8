"""Short-lived permissions: triggers for views, response URLs, and tickets for a socket."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from slack_playground.values import SlackError
from slack_playground.world.world import World


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

    channel: str
    user: str
    granted: float
    message: str = ""
    uses: int = 0


class Grants:
    def __init__(self, world: World) -> None:
        self._world = world
        self._triggers: dict[str, Trigger] = {}
        self.urls: dict[str, ResponseUrl] = {}
        self._tickets: dict[str, float] = {}
        self._n = 1000

    def trigger(self, user: str, view_id: str = "", channel: str = "") -> str:
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

    def response_url(self, kind: str, channel: str, user: str, *, message: str = "") -> str:
        """A new address at which the bot may answer."""
        path = f"/{kind}/{self._world.app.team_id}/{secrets.token_hex(12)}"
        self.urls[path] = ResponseUrl(channel, user, self._world.clock.now(), message)
        return self._world.base_url + path

    def answer(self, path: str) -> ResponseUrl:
        """Use a response_url, in time and not too often."""
        url = self.urls.get(path)
        if url is None or self._world.clock.now() - url.granted > self._world.timings.response_url:
            raise SlackError("expired_url")
        if url.uses >= self._world.timings.response_url_uses:
            raise SlackError("used_url")
        return url

    def ticket(self) -> str:
        ticket = secrets.token_hex(16)
        self._tickets[ticket] = self._world.clock.now()
        return ticket

    def redeem(self, ticket: str) -> bool:
        """True if this ticket is valid; it is used up by that."""
        granted = self._tickets.pop(ticket, None)
        return granted is not None and self._world.clock.now() - granted <= self._world.timings.ticket
