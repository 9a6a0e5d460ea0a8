"""Whose vote counts in Slack: one person is one person, whatever else Slack says beside their id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.views.blocks import blocks_of
from bot.views.cards.approval import ApprovalDetails, approval_card
from bot.views.home import DECIDE
from slack_playground import Playground
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from tests.support.intake.approvals import Desk, a_desk
from tests.support.slack.slack_host import SlackRoom, texts


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path, required_for=["restart"], votes=2) as made:
        people = ["U0OPERATOR", "U0APPROVER", "U0ANN"]
        made.document["slack"]["access"] = {"operators": people, "approvers": people}
        made.configure()
        yield made


def asked(desk: Desk) -> Approval:
    ((approval, _),) = desk.approvals.waiting()
    return approval


def button(desk: Desk, name: str) -> dict[str, Any]:
    """Of the card as it is now."""
    card = approval_card(ApprovalDetails(asked(desk)))
    elements = [each for block in blocks_of(card) for each in block.get("elements", ())]
    return next(each for each in elements if each.get("action_id") == f"approval:{name}")


async def test_whoever_asked_is_no_other_voter_by_another_workspace_beside_their_id(
    desk: Desk, slack: Playground
) -> None:
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    (told,) = texts(await room.press("operator", button(desk, "approve"), team_id="T0ENTERPRISE"))
    assert "You requested it" in told
    assert not await said(room, "approver", team_id=room.workspace)
    assert not await said(room, "approver", team_id="T0ENTERPRISE")  # the same vote again: it counts once
    assert asked(desk).state is ApprovalState.PENDING
    assert not await said(room, "ann")
    assert asked(desk).state is ApprovalState.APPROVED


async def said(room: SlackRoom, name: str, **user: Any) -> list[str]:
    return texts(await room.press(name, button(room.desk, "approve"), **user))


async def test_whoever_asked_may_cancel_whatever_workspace_stands_beside_their_id(
    desk: Desk, slack: Playground
) -> None:
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    approval = asked(desk)
    desk.document["slack"]["access"] = {"operators": [], "approvers": ["U0APPROVER"]}
    desk.configure()
    assert not texts(await room.press("operator", button(desk, "cancel"), team_id="T0ENTERPRISE"))
    assert desk.approvals.find(approval.approval_id)[0].state is ApprovalState.CANCELLED


async def test_who_decides_in_the_list_that_only_they_see_has_it_told_anew_there(desk: Desk, slack: Playground) -> None:
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    await room.slash("operator", "restart South")
    room.alone = True
    first, second = (approval.approval_id for approval, _ in desk.approvals.waiting())
    for approval_id in (first, second):  # of two votes each needs
        (told,) = (await room.press("approver", {"action_id": "approval:approve", "value": approval_id})).messages
        payload = told.payload or {}
        assert payload["replace"] is True
        assert payload["content"]["text"].startswith(":raised_hand: *2 commands need approval*")
    assert not (await room.press("ann", {"action_id": "approval:deny", "value": first})).messages
    (told,) = (await room.send("ann", room.forms[-1], reason="not tonight")).messages
    payload = told.payload or {}
    assert payload["replace"] is True
    assert payload["content"]["text"].startswith(":raised_hand: *1 command needs approval*")
    assert desk.approvals.find(first)[0].reason == "not tonight"


async def test_app_home_opens_the_form_of_a_vote_only_for_people_who_may_vote(desk: Desk, slack: Playground) -> None:
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    decide = {"action_id": DECIDE, "value": asked(desk).approval_id}
    desk.document["slack"]["access"]["approvers"] = ["U0APPROVER"]
    desk.configure()
    (told,) = texts(await room.press("ann", decide))
    assert told.startswith(":no_entry:")
    assert room.forms == []
    assert not texts(await room.press("approver", decide))
    assert len(room.forms) == 1
