"""People as Slack describes them, remembered for a minute; asked for anew where a right is about to be used.

Slack being away is not an answer: then `NotNowError` is raised, and whoever asked may ask again later; for as long as
Slack asks us to wait, it is not called at all. An answer that names nobody is one: a person who is unknown has no
right, and a group that is unknown gives none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.access import EVERYBODY, Person
from bot.intake.dealing import NotNowError
from bot.pace import Pace
from bot.weather import is_weather, reason_of, wait_asked, word_of

REMEMBERED_SECONDS = 60.0
"""Long enough for a conversation, short enough for somebody who has just lost a role."""

MOST_REMEMBERED = 500

log = logging.getLogger(__name__)


class People:
    """Asks Slack who somebody is. Whoever Slack does not know is None, and has no right."""

    def __init__(
        self, client: AsyncWebClient, groups: Collection[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._groups = tuple(sorted(group for group in groups if group != EVERYBODY and group.startswith("S")))
        self._clock = clock
        self._pace = Pace(clock)
        self._people: dict[str, tuple[float, dict[str, Any]]] = {}
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    async def person(self, user_id: str, *, fresh: bool = False, groups: bool = True) -> Person | None:
        """Who this is; with `fresh`, nothing that is remembered counts. `groups`: also in which groups they are, which
        costs a call for each."""
        try:
            user = await self._user(user_id, fresh=fresh)
            asked = self._groups if groups else ()
            members = await asyncio.gather(*(self._members_of(group, fresh=fresh) for group in asked))
        except (ClientError, OSError, TimeoutError) as error:
            raise NotNowError(f"Slack can't be asked who {user_id} is: {reason_of(error)}") from error
        except SlackApiError as error:
            if is_weather(error):
                words = f"Slack does not say who {user_id} is: {reason_of(error)}"
                raise NotNowError(words, wait_asked(error) or 0.0) from error
            log.error("Slack does not say who %s is: %s", user_id, word_of(error))  # noqa: TRY400 (the word says it)
            return None
        profile = user.get("profile") or {}
        name = profile.get("display_name") or profile.get("real_name") or user.get("real_name") or user_id
        return Person(
            id=user_id,
            team_id=str(user.get("team_id") or ""),
            name=str(name),
            deleted=bool(user.get("deleted")),
            is_bot=bool(user.get("is_bot")),
            is_guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted") or user.get("is_stranger")),
            groups=frozenset(group for group, those in zip(asked, members, strict=True) if user_id in those),
        )

    async def _user(self, user_id: str, *, fresh: bool) -> dict[str, Any]:
        known = self._people.get(user_id)
        if known and not fresh and self._clock() - known[0] < REMEMBERED_SECONDS:
            return known[1]
        answer = await self._ask("users.info", lambda: self._client.users_info(user=user_id))
        user: dict[str, Any] = answer["user"]
        now = self._clock()
        if len(self._people) >= MOST_REMEMBERED:
            self._people = {each: known for each, known in self._people.items() if now - known[0] < REMEMBERED_SECONDS}
        self._people[user_id] = (now, user)
        return user

    async def _members_of(self, group: str, *, fresh: bool) -> frozenset[str]:
        """Who is in a group; nobody, and it is said, for a group that Slack does not have."""
        known = self._members.get(group)
        if known and not fresh and self._clock() - known[0] < REMEMBERED_SECONDS:
            return known[1]
        try:
            answer = await self._ask(
                "usergroups.users.list", lambda: self._client.usergroups_users_list(usergroup=group)
            )
            members = frozenset(answer["users"] or ())
        except SlackApiError as error:
            if is_weather(error):
                raise
            log.error("the user group %s gives no rights: %s", group, word_of(error))  # noqa: TRY400
            members = frozenset()
        self._members[group] = (self._clock(), members)
        return members

    async def _ask(self, method: str, call: Callable[[], Awaitable[AsyncSlackResponse]]) -> AsyncSlackResponse:
        """Call Slack, unless it asked us to leave this method alone for a while."""
        wait = self._pace.wait((), method)
        if wait > 0:
            raise NotNowError(f"Slack asked us not to call {method} for another {wait:.1f} s", wait)
        try:
            return await call()
        except SlackApiError as error:
            asked = wait_asked(error)
            if asked is not None:
                self._pace.hold(method, asked)
            raise
