"""People as Slack describes them, remembered for a minute; asked for anew where a right is about to be used."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.access import EVERYBODY, Person

REMEMBERED_SECONDS = 60.0
"""Long enough for a conversation, short enough for somebody who has just lost a role."""

log = logging.getLogger(__name__)


class People:
    """Asks Slack who somebody is. Whoever can't be told is None, and has no right."""

    def __init__(
        self, client: AsyncWebClient, groups: Collection[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._groups = tuple(sorted(group for group in groups if group != EVERYBODY and group.startswith("S")))
        self._clock = clock
        self._people: dict[str, tuple[float, dict[str, Any]]] = {}
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    async def person(self, user_id: str, *, fresh: bool = False) -> Person | None:
        """Who this is; with `fresh`, nothing that is remembered counts."""
        try:
            user = await self._user(user_id, fresh=fresh)
            groups = [group for group in self._groups if user_id in await self._members_of(group, fresh=fresh)]
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("Slack does not say who %s is: %s", user_id, error)
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
            groups=frozenset(groups),
        )

    async def _user(self, user_id: str, *, fresh: bool) -> dict[str, Any]:
        known = self._people.get(user_id)
        if known and not fresh and self._clock() - known[0] < REMEMBERED_SECONDS:
            return known[1]
        answer = await self._client.users_info(user=user_id)
        user: dict[str, Any] = answer["user"]
        self._people[user_id] = (self._clock(), user)
        return user

    async def _members_of(self, group: str, *, fresh: bool) -> frozenset[str]:
        """Who is in a group; nobody, and it is said, for a group that Slack does not have."""
        known = self._members.get(group)
        if known and not fresh and self._clock() - known[0] < REMEMBERED_SECONDS:
            return known[1]
        try:
            answer = await self._client.usergroups_users_list(usergroup=group)
            members = frozenset(answer["users"] or ())
        except SlackApiError as error:
            if error.response.get("error") not in ("no_such_subteam", "plan_upgrade_required", "subteam_not_found"):
                raise
            log.error("the user group %s gives no rights: %s", group, error.response.get("error"))  # noqa: TRY400
            members = frozenset()
        self._members[group] = (self._clock(), members)
        return members
