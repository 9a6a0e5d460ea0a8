"""Who somebody is, asked of a local Slack: remembered for a minute, asked anew for a right, and closed by default."""

from __future__ import annotations

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.access import people as people_of_slack
from bot.access.people import PAGE, REMEMBERED_SECONDS, People, UnverifiedError
from bot.access.rules import Person
from slack_playground import Playground


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_of_slack, "VERIFY_SECONDS", 0.8)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def people(slack: Playground, *groups: str, clock: Clock | None = None) -> People:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    return People(client, groups, clock or Clock())


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


async def test_for_as_long_as_slack_asks_to_wait_nobody_is_looked_up(slack: Playground) -> None:
    ann, ben, clock = slack.user("ann"), slack.user("ben"), Clock()
    asking = people(slack, clock=clock)
    slack.fault("ratelimited", "users.info", retry_after=20)
    for who, seconds in ((ann, 20), (ben, 5)):
        with pytest.raises(UnverifiedError) as refused:
            await asking.person(who.id)
        assert refused.value.seconds == seconds
        clock.now += 15 if who is ann else 5
    assert len(slack.calls("users.info")) == 1
    assert await asking.person(ben.id) is not None


# Channels whose members have a right


async def test_the_members_of_a_channel_are_in_it_however_many_pages_they_fill(slack: Playground) -> None:
    crowd = [slack.user(f"u{number}") for number in range(PAGE * 2 + 1)]
    first, last = crowd[0], crowd[-1]
    place = slack.channel("oncall", private=True, members=crowd)
    slack.server.world.join(place.channel, slack.server.world.bot)
    asking = people(slack, place.id)
    for who in (first, last):
        found = await asking.person(who.id)
        assert found is not None
        assert found.groups == {place.id}
    assert (await asking.person(slack.user("outside").id) or Person("", "")).groups == frozenset()
    assert len(slack.calls("conversations.members")) == 3, "all pages, and once for all of them"


@pytest.mark.parametrize("how", ["unknown", "private without us", "archived", "no scope", "in the middle"])
async def test_a_channel_that_slack_does_not_show_gives_no_rights_and_that_is_logged(
    how: str, slack: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    ann = slack.user("ann")
    place = slack.channel("oncall", private=how.startswith("private"), members=[ann])
    channel = "C0NOWHERE" if how == "unknown" else place.id
    if how == "archived":
        slack.server.world.set_channel(place.channel, archived=True)
    if how == "no scope":
        slack.fault("error", "conversations.info", error="missing_scope")
    if how == "in the middle":
        slack.fault("error", "conversations.members", error="fetch_members_failed")
    found = await people(slack, channel).person(ann.id)
    assert found is not None
    assert found.groups == frozenset()
    assert f"the channel {channel} gives no rights" in caplog.text


async def test_a_channel_that_never_ends_gives_no_rights(
    slack: Playground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bot.access.people.PAGE", 1)
    monkeypatch.setattr("bot.access.people.MOST_PAGES", 2)
    crowd = [slack.user(f"u{number}") for number in range(3)]
    place = slack.channel("crowd", members=crowd)
    found = await people(slack, place.id).person(crowd[0].id)
    assert found is not None
    assert found.groups == frozenset()
    assert "For all full members, use" in caplog.text


# Asked only where it matters
