"""The people on call as users of Slack: a source's email addresses are looked up, and anybody unknown is left out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.rate_limits import Pace
from bot.outbound.slack_errors import explain, is_temporary, retry_after
from supervisor_core.alerts.oncall import OnCallAnswer, OnCallDirectory, is_source
from supervisor_core.common.service import Blocking
from supervisor_core.storage.outbox import PendingMessage

SLACK_SECONDS = 5.0
"""Time for looking up all of them in Slack, for a message."""

AT_ONCE = 8
"""Questions at the same time. Each blocks as long as its source allows."""

LOOK_UP = "users.lookupByEmail"
REMEMBERED_SECONDS = 3600.0
"""Time for which the user of an email address is remembered."""

MOST_REMEMBERED = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OnCallUsers:
    """The users on call, and the answer that they come from."""

    users: frozenset[str]
    answer: OnCallAnswer

    def as_json(self) -> dict[str, Any]:
        return {**self.answer.as_json(), "users": sorted(self.users)}


class OnCallPeople:
    """Asks the sources and then Slack. An error of Slack is raised, so that no right rests on half an answer."""

    def __init__(
        self,
        client: AsyncWebClient,
        directory: OnCallDirectory | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._directory = directory
        self._clock = clock
        self._pace = Pace(clock)
        self._elsewhere = Blocking(AT_ONCE, "slack-oncall")
        self._users: dict[str, tuple[float, str]] = {}

    async def ask(self, source_id: str) -> OnCallAnswer | None:
        """The answer of this source, within its own time limit; None if the configuration doesn't have it any more."""
        source = self._directory.source(source_id) if self._directory else None
        return await self._elsewhere(self._directory.ask, source) if self._directory and source else None

    async def users(self, answer: OnCallAnswer) -> OnCallUsers:
        found = await asyncio.gather(*(self._user(who) for who in answer.people))
        return OnCallUsers(frozenset(filter(None, found)), answer)

    async def resolve(self, message: PendingMessage) -> PendingMessage:
        """The message with the people on call in the places of their sources, in an escalation."""
        if not any(is_source(str(each)) for each in message.payload.get("people") or ()):
            return message
        found: list[str] = []
        for who in map(str, message.payload["people"]):
            found += await self._reachable(who) if is_source(who) else [who]
        people = list(dict.fromkeys(found))
        log.info("alert %s escalates to %s", message.payload["alert_id"], ", ".join(people) or "nobody")
        return replace(message, payload={**message.payload, "people": people})

    async def _reachable(self, source_id: str) -> list[str]:
        """The people on call. What can't be found out is left out: a message must not wait for it."""
        answer = await self.ask(source_id)
        if answer is None:
            return []
        try:
            async with asyncio.timeout(SLACK_SECONDS):
                found = sorted((await self.users(answer)).users)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("the people on call can't be looked up in Slack: %s", type(error).__name__)
            found = []
        return found or list(answer.source.settings.fallback)

    async def _user(self, who: str) -> str:
        """The user's id; empty for an address that Slack doesn't know."""
        if "@" not in who:
            return who
        known = self._users.get(who)
        if known and self._clock() < known[0]:
            return known[1]
        user = await self._asked(lambda: self._client.users_lookupByEmail(email=who), who)
        if len(self._users) >= MOST_REMEMBERED:
            self._users.clear()
        self._users[who] = self._clock() + REMEMBERED_SECONDS, user
        return user

    async def _asked(self, call: Callable[[], Awaitable[Any]], who: str) -> str:
        wait = self._pace.wait((), LOOK_UP)
        if wait > 0:
            raise TimeoutError(f"Slack asked to leave {LOOK_UP} alone")
        try:
            answer = await call()
        except SlackApiError as error:
            if (asked := retry_after(error)) is not None:
                self._pace.hold(LOOK_UP, asked)
            if is_temporary(error):
                raise
            log.error("the person on call with the address %s isn't found in Slack: %s", who, explain(error))  # noqa: TRY400
            return ""
        return str(answer["user"]["id"])
