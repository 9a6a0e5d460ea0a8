"""A workspace in an Enterprise organization: whose workspace it is, and which installation is refused."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.access.people import People
from bot.access.rules import AccessRules, membership, refusal
from bot.inbound.identity import Identity, find_identity
from bot.inbound.reconnection import SlackRefusedError
from bot.views.answers.refusals import Membership
from slack_playground import Playground
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.common.service import Pulse
from supervisor_core.config.slack_settings import AccessSettings, SlackSettings

in_an_organization = pytest.mark.playground(enterprise="workspace")


def client_of(slack: Playground) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])


async def identity_of(slack: Playground) -> Identity | None:
    return await find_identity(client_of(slack), asyncio.Event(), Pulse(), lambda _: None)


@in_an_organization
async def test_a_member_of_several_workspaces_has_the_rights_of_a_full_member(slack: Playground) -> None:
    ours = slack.server.world.app.team_id
    member = slack.user("ann", team_id="", teams=["T0ELSE", ours])
    other = slack.user("ben", team_id="", teams=["T0ELSE"])
    guest = slack.user("visitor", team_id="", teams=[ours], is_restricted=True)
    access = AccessSettings(operators=("*",))
    rules = AccessRules(SlackSettings(access=access), {}, {}, ours)
    judge = partial(refusal, definition=CATALOG["pause"], command=None, channel="C0OPS", rules=rules)
    answers = {}
    for who in (member, other, guest):
        person, refused = await People(client_of(slack), ("*",)).judged(who.id, judge, fresh=True)
        assert person is not None
        answers[who.id] = (membership(person, ours), refused is None)
    assert answers == {
        member.id: (Membership.FULL, True),
        other.id: (Membership.STRANGER, False),
        guest.id: (Membership.GUEST, False),
    }


@in_an_organization
async def test_a_workspace_of_an_organization_is_served_like_any_other(slack: Playground) -> None:
    found = await identity_of(slack)
    assert found is not None
    assert found.team_id == slack.server.world.app.team_id


@pytest.mark.playground(enterprise="organization")
async def test_an_app_of_a_whole_organization_does_not_start(slack: Playground) -> None:
    with pytest.raises(SlackRefusedError, match="installed for a whole Enterprise organization") as refused:
        await identity_of(slack)
    assert "Create the app in the workspace" in refused.value.remedy
