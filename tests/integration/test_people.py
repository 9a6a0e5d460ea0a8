"""Who somebody is, asked of a local Slack: remembered for a minute, asked anew for a right, and closed by default."""

from __future__ import annotations

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.access import Person
from bot.intake.dealing import NotNowError
from bot.people import REMEMBERED_SECONDS, People
from bot.playground import Playground


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def people(slack: Playground, *groups: str, clock: Clock | None = None) -> People:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    return People(client, groups, clock or Clock())


async def test_a_person_has_a_name_a_workspace_and_groups(slack: Playground) -> None:
    ann = slack.user("ann", display_name="Ann A.")
    group = slack.group("oncall", ann)
    found = await people(slack, group, "*", "U0OPER").person(ann.id)
    assert found is not None
    assert (found.id, found.name, found.groups) == (ann.id, "Ann A.", frozenset({group}))
    assert (found.deleted, found.is_bot, found.is_guest) == (False, False, False)


async def test_guests_the_deactivated_and_those_slack_does_not_know(slack: Playground) -> None:
    guest, gone = slack.user("visitor", is_restricted=True), slack.user("gone", deleted=True)
    asking = people(slack)
    assert (await asking.person(guest.id) or Person("", "")).is_guest
    assert (await asking.person(gone.id) or Person("", "")).deleted
    assert await asking.person("U0NOBODY") is None


async def test_a_lost_role_counts_at_once_where_it_is_asked_anew_and_after_a_minute_elsewhere(
    slack: Playground,
) -> None:
    ann, clock = slack.user("ann"), Clock()
    group = slack.group("oncall", ann)
    asking = people(slack, group, clock=clock)

    async def groups(*, fresh: bool = False) -> frozenset[str]:
        found = await asking.person(ann.id, fresh=fresh)
        return found.groups if found else frozenset()

    assert await groups() == {group}
    slack.group("oncall")
    assert await groups() == {group}
    clock.now += REMEMBERED_SECONDS - 1
    assert await groups() == {group}
    clock.now += 1
    assert await groups() == frozenset()
    slack.group("oncall", ann)
    assert await groups(fresh=True) == {group}


async def test_a_slack_that_does_not_answer_is_no_answer(slack: Playground) -> None:
    ann = slack.user("ann")
    group = slack.group("oncall", ann)
    slack.fault("status", "usergroups.users.list", times=0, status=503)
    with pytest.raises(NotNowError):
        await people(slack, group).person(ann.id)


async def test_a_group_that_there_is_not_gives_no_rights_and_takes_none(slack: Playground) -> None:
    ann = slack.user("ann")
    found = await people(slack, "S0NOSUCH").person(ann.id)
    assert found is not None
    assert found.groups == frozenset()


async def test_for_as_long_as_slack_asks_to_wait_nobody_is_looked_up(slack: Playground) -> None:
    ann, ben, clock = slack.user("ann"), slack.user("ben"), Clock()
    asking = people(slack, clock=clock)
    slack.fault("ratelimited", "users.info", retry_after=20)
    for who, seconds in ((ann, 20), (ben, 5)):
        with pytest.raises(NotNowError) as refused:
            await asking.person(who.id)
        assert refused.value.seconds == seconds
        clock.now += 15 if who is ann else 5
    assert len(slack.calls("users.info")) == 1
    assert await asking.person(ben.id) is not None
