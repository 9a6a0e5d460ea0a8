"""Who belongs to the workspace, by what `users.info` says."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.access.people import People
from bot.access.rules import Person, membership
from bot.doctor.people import user_problem
from bot.views.answers.refusals import Membership

HOME, ELSEWHERE, ORGANIZATION = "T0HOME", "T0ELSE", "E0ORG"
FULL, GUEST, STRANGER = Membership.FULL, Membership.GUEST, Membership.STRANGER


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"team_id": HOME}, FULL),
        ({"team_id": ELSEWHERE}, STRANGER),
        ({"team_id": HOME, "is_restricted": True}, GUEST),
        ({"team_id": HOME, "is_ultra_restricted": True}, GUEST),
        ({"team_id": HOME, "is_stranger": True}, STRANGER),
        ({"enterprise_user": {"teams": [ELSEWHERE, HOME]}}, FULL),
        ({"enterprise_user": {"teams": [ELSEWHERE]}}, STRANGER),
        ({"enterprise_user": {"teams": [HOME]}, "is_restricted": True}, GUEST),
        ({"enterprise_user": {"teams": [HOME]}, "is_stranger": True}, STRANGER),
        ({"teams": [HOME, ELSEWHERE]}, FULL),
        ({"team_id": ORGANIZATION, "enterprise_user": {"teams": [HOME]}}, FULL),
        ({"team_id": ELSEWHERE, "enterprise_user": {"teams": [HOME, ELSEWHERE]}}, FULL),
        ({"team_id": ELSEWHERE, "enterprise_user": {"teams": None}, "teams": None}, STRANGER),
        ({"team_id": None, "enterprise_user": None}, STRANGER),
        ({}, STRANGER),
    ],
)
def test_membership_by_what_slack_says(user: dict[str, Any], expected: Membership) -> None:
    assert membership(Person.from_slack("U0ME", user), HOME) is expected


def test_nobody_belongs_to_a_workspace_that_is_unknown_itself() -> None:
    assert membership(Person.from_slack("U0ME", {"team_id": HOME}), "") is STRANGER
    assert membership(Person("U0ME", ""), "") is STRANGER


def test_an_id_by_which_slack_sends_nothing_gets_no_rights_and_doctor_names_the_right_one() -> None:
    found, _ = user_problem("W0OLD", ["slack.access.operators"], {"id": "U0NEW", "team_id": HOME}, HOME)
    assert found is not None
    assert "W0OLD (W0OLD) gets no rights: Slack calls this person U0NEW" in found.message
    assert found.remedy == "Write U0NEW instead of W0OLD."


class OldOrganization:
    """Slack for an organization whose user groups list people by their ids there."""

    async def users_info(self, user: str) -> dict[str, Any]:
        return {"user": {"id": user, "enterprise_user": {"id": user.replace("U", "W"), "teams": [HOME]}}}

    async def usergroups_users_list(self, usergroup: str) -> dict[str, Any]:
        return {"users": ["W0ANN"]}


async def groups_of(user: str) -> frozenset[str]:
    found = await People(cast("AsyncWebClient", OldOrganization()), {"S0OPS"}).person(user)
    assert found is not None
    assert found.id == user, "no right and no vote counts by the id in the organization"
    return found.groups


def test_a_user_group_may_list_people_by_their_id_in_the_organization() -> None:
    assert asyncio.run(groups_of("U0ANN")) == {"S0OPS"}
    assert asyncio.run(groups_of("U0BEN")) == set()
