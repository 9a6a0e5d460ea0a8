"""Group messages and direct messages between others: what works there, and what people are told where it doesn't."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from slack_playground.testing.people import ChannelView, Person
from tests.support.homes import ROOT
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = pytest.mark.playground(manifest=str(ROOT / "manifest.yml"))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home") as made:
        yield made


def between(slack: Playground, *people: Person, bot: bool = False) -> ChannelView:
    """The direct message or group message between these people."""
    world = slack.server.world
    members = [person.user.id for person in people] + ([world.bot.id] if bot else [])
    return ChannelView(slack, world.direct(members))


async def test_in_a_group_message_with_the_bot_it_works_as_in_a_channel(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    group = between(slack, operator, viewer, bot=True)
    card = await operator.says("@supervisor pause hotfix", in_=group)
    await card.shows("OrionMX paused")
    await viewer.says("@supervisor resume", in_=group)
    await viewer.sees("resume is limited to operators", in_=group)
    await operator.slash("/supervisor resume", in_=group)
    await operator.sees("OrionMX resumed", in_=group)
    await settled(home)


async def test_where_the_bot_can_not_be_a_command_runs_and_is_answered_in_a_direct_message(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator, viewer, ann = slack.user("operator"), slack.user("viewer"), slack.user("ann")
    for place, words in (
        (between(slack, operator, viewer), "direct messages between other people"),
        (between(slack, operator, viewer, ann), "start a new one with me"),
    ):
        await operator.slash("/supervisor pause hotfix", in_=place)
        await operator.sees("OrionMX paused", in_=operator.dm())
        await operator.sees(words, in_=operator.dm())
        await operator.slash("/supervisor resume", in_=place)
        await operator.sees("OrionMX resumed", in_=operator.dm())
        await viewer.does_not_see("OrionMX", in_=place)
    await settled(home)
