"""People as Slack describes them, remembered for a minute; asked for anew where a right is about to be used.

Slack being away is not an answer: after a few seconds `UnverifiedError` is raised, and whoever asked may ask again
later; for as long as Slack asks us to wait, it is not called at all. An answer that names nobody is one: a person who
is unknown has no right, and a user group or a channel that is unknown, or that we may not see, gives none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.access.on_call import OnCallPeople, OnCallUsers
from bot.access.rules import Person, Refusal, group_ids
from bot.outbound.rate_limits import HeldError, Pace
from bot.outbound.slack_errors import ErrorKind, explain, failure_text, is_temporary, kind_of, retry_after
from supervisor_core.alerts.oncall import is_source

REMEMBERED_SECONDS = 60.0
"""Time for which an answer is remembered: a conversation, but not long after a lost role."""

VERIFY_SECONDS, AGAIN_SECONDS = 5.0, 0.5
"""Time for asking Slack about a person or a group, and the delay between tries. After it the right is unverified."""

MOST_REMEMBERED = 500

PAGE = 999
"""Members of a channel in one answer, the most that Slack gives: each page costs time, and a form waits for it."""

MOST_PAGES = 10
"""A channel with more members isn't used for rights: for everybody there is `*`."""

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

AccessRule = Callable[[Person | None], Refusal | None]
"""The refusal of a person as far as they are known."""


class UnverifiedError(Exception):
    """Slack doesn't say who somebody is or which groups they are in; it needn't be asked again for `seconds`.
    `permanent`: our token or its scopes don't allow the question."""

    def __init__(self, words: str, seconds: float = 0.0, *, permanent: bool = False) -> None:
        super().__init__(words)
        self.seconds = seconds
        self.permanent = permanent


class NoRightsError(Exception):
    """Slack's answer about a user group or channel gives nobody a right."""


class People:
    """Asks Slack about people. A person whom Slack doesn't know is None and has no right."""

    def __init__(
        self,
        client: AsyncWebClient,
        groups: Collection[str],
        clock: Callable[[], float] = time.monotonic,
        on_call: OnCallPeople | None = None,
    ) -> None:
        self._client = client
        self._on_call = on_call or OnCallPeople(client)
        self._groups = group_ids(groups)
        self._clock = clock
        self._pace = Pace(clock)
        self._people: dict[str, tuple[float, dict[str, Any]]] = {}
        self._members: dict[str, tuple[float, frozenset[str]]] = {}

    async def person(
        self, user_id: str, *, fresh: bool = False, groups: bool | Collection[str] = True
    ) -> Person | None:
        """The person; with `fresh`, nothing remembered counts. `groups`: with their memberships in the configured user
        groups and channels, or in these; each costs a call."""
        user = await self._asked(user_id, lambda: self._user(user_id, fresh=fresh), fresh=fresh)
        if user is None:
            return None
        wanted = self._groups if groups is True else group_ids(groups or ()) & self._groups
        return await self._with_groups(Person.from_slack(user_id, user), wanted, fresh=fresh)

    async def judged(self, user_id: str, judge: AccessRule, *, fresh: bool) -> tuple[Person | None, Refusal | None]:
        """The person and the refusal, if any. Memberships are looked up only if their own id and `*` aren't enough, and
        only those that would help."""
        person = await self.person(user_id, fresh=fresh, groups=False)
        refused = judge(person)
        if person is None or refused is None or not refused.circles:
            return person, refused
        person = await self._with_groups(person, refused.circles & self._groups, fresh=fresh)
        return person, judge(person)

    async def _with_groups(self, person: Person, wanted: Collection[str], *, fresh: bool) -> Person:
        asked = sorted(each for each in wanted if not is_source(each))
        # Each source has a time limit of its own, before Slack is asked about its people.
        answers = await asyncio.gather(*(self._on_call.ask(each) for each in sorted(wanted) if is_source(each)))

        async def look() -> tuple[list[frozenset[str]], list[OnCallUsers]]:
            members = asyncio.gather(*(self._members_of(circle, fresh=fresh) for circle in asked))
            on_call = asyncio.gather(*(self._on_call.users(answer) for answer in answers if answer is not None))
            return await members, await on_call

        found = await self._asked(person.id, look, fresh=fresh)
        if found is None:
            return person
        members, on_call = found
        ids = {person.id, person.enterprise_user} - {""}
        circles: dict[str, frozenset[str]] = dict(zip(asked, members, strict=True))
        circles |= {each.answer.source: each.users for each in on_call}
        mine = frozenset(circle for circle, those in circles.items() if ids & those)
        return replace(person, groups=mine, on_call=tuple(each.as_json() for each in on_call))

    async def _asked(self, user_id: str, look: Callable[[], Awaitable[Answer]], *, fresh: bool) -> Answer | None:
        """The answer about a person; None if Slack doesn't know them, `UnverifiedError` if it doesn't answer within
        `VERIFY_SECONDS`, or if a fresh answer is needed and we aren't allowed to ask."""
        deadline = time.monotonic() + VERIFY_SECONDS
        while True:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    return await look()
            except (ClientError, OSError, TimeoutError) as error:
                why, wait = f"Slack can't be asked about {user_id}: {failure_text(error)}", AGAIN_SECONDS
            except HeldError as error:
                why, wait = str(error), error.seconds
            except SlackApiError as error:
                if fresh and kind_of(error) is ErrorKind.PERMISSION:
                    raise UnverifiedError(f"Slack doesn't answer: {explain(error)}", permanent=True) from error
                if not is_temporary(error):
                    log.error("Slack doesn't know %s: %s", user_id, explain(error))  # noqa: TRY400
                    return None
                why = f"Slack doesn't say who {user_id} is: {failure_text(error)}"
                wait = retry_after(error) or AGAIN_SECONDS
            if time.monotonic() + wait >= deadline:
                raise UnverifiedError(why, wait)
            await asyncio.sleep(wait)

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

    async def _members_of(self, circle: str, *, fresh: bool) -> frozenset[str]:
        """The members of a user group or channel; none, with a warning in the log, without a reliable answer."""
        known = self._members.get(circle)
        if known and not fresh and self._clock() - known[0] < REMEMBERED_SECONDS:
            return known[1]
        group = circle.startswith("S")
        try:
            if group:
                ask = partial(self._client.usergroups_users_list, usergroup=circle)
                members = frozenset((await self._ask("usergroups.users.list", ask))["users"] or ())
            else:
                members = await self._in_channel(circle)
        except (SlackApiError, NoRightsError) as error:
            if isinstance(error, SlackApiError) and (
                is_temporary(error) or (fresh and kind_of(error) is ErrorKind.PERMISSION)
            ):
                raise
            what = "user group" if group else "channel"
            why = explain(error) if isinstance(error, SlackApiError) else error
            log.error("the %s %s gives no rights: %s", what, circle, why)  # noqa: TRY400
            members = frozenset()
        self._members[circle] = (self._clock(), members)
        return members

    async def _in_channel(self, channel: str) -> frozenset[str]:
        """All members of a channel, or nobody: never a part of them."""
        info = await self._ask("conversations.info", lambda: self._client.conversations_info(channel=channel))
        if info["channel"].get("is_archived"):
            raise NoRightsError("it's archived, so nobody can leave it")
        found: set[str] = set()
        cursor = ""
        for _ in range(MOST_PAGES):
            ask = partial(self._client.conversations_members, channel=channel, limit=PAGE, cursor=cursor or None)
            page = await self._ask("conversations.members", ask)
            found.update(page["members"] or ())
            cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return frozenset(found)
        raise NoRightsError(f'it has more than {MOST_PAGES * PAGE:,} members. For all full members, use "*"')

    async def _ask(self, method: str, call: Callable[[], Awaitable[AsyncSlackResponse]]) -> AsyncSlackResponse:
        """Call Slack, unless it asked us to leave this method alone for a while."""
        wait = self._pace.wait((), method)
        if wait > 0:
            raise HeldError(method, wait)
        try:
            return await call()
        except SlackApiError as error:
            asked = retry_after(error)
            if asked is not None:
                self._pace.hold(method, asked)
            raise
