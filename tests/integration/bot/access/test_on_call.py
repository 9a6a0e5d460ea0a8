"""The person on call approves and is mentioned: a real source, a local Slack, and what the audit trail keeps of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.access import people as people_of_slack
from bot.views.blocks import blocks_of
from bot.views.cards.approval import ApprovalDetails, approval_card
from slack_playground import Playground
from supervisor_core.alerts.messages import CALL
from supervisor_core.alerts.oncall import on_call_sources
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.storage.outbox import PendingMessage
from tests.support.intake.approvals import Desk, a_desk
from tests.support.slack.slack_host import SlackRoom, texts


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path, required_for=["restart"]) as made:
        yield made


def says(desk: Desk, *lines: str) -> None:
    """Who is on call from now on."""
    (desk.config.path.parent / "on-call").write_text("".join(f"{line}\n" for line in lines))


def with_source(desk: Desk, **more: Any) -> None:
    """The people on call are the approvers, and called by an escalation."""
    source = {"oncall": {"command": ["cat", "on-call"], "cache_minutes": 0.01, **more}}
    desk.document["slack"]["access"] = {"operators": ["U0OPERATOR"], "approvers": [source]}
    desk.document["alerts"] = {"escalation": [{"after_minutes": 5, "to": ["U0BEA", source]}]}
    desk.configure()


def asked(desk: Desk) -> Approval:
    ((approval, _),) = desk.approvals.waiting()
    return approval


def approve_button(desk: Desk) -> dict[str, Any]:
    card = approval_card(ApprovalDetails(asked(desk)))
    elements = [each for block in blocks_of(card) for each in block.get("elements", ())]
    return next(each for each in elements if each.get("action_id") == "approval:approve")


def trail(desk: Desk, action: str) -> list[dict[str, Any]]:
    """The details of the audit rows of this action."""
    query = f"SELECT details_json FROM audit_log_t WHERE action = '{action}' ORDER BY audit_id"
    found = desk.ledger.read(lambda connection: connection.exec_driver_sql(query).scalars().all())
    return [json.loads(each) for each in found]


async def test_whoever_is_on_call_by_their_address_approves_and_the_audit_trail_says_why_they_could(
    desk: Desk, slack: Playground
) -> None:
    with_source(desk)
    says(desk, "ann@playground.example", "nobody@elsewhere.example")
    room, ann = SlackRoom(desk, slack), slack.user("ann")
    await room.slash("operator", "restart North")
    button = approve_button(desk)
    (told,) = texts(await room.press("approver", button))
    assert "limited to approvers: the person on call" in told
    assert not texts(await room.press("ann", button))
    assert asked(desk).state is ApprovalState.APPROVED
    ((used,),) = (each["on_call"] for each in trail(desk, "VOTED_ON_CALL"))
    assert (used["source"], used["from"], used["users"]) == ("cat", "source", [ann.id])
    assert used["people"] == ["ann@playground.example", "nobody@elsewhere.example"]
    ((refused,),) = (each["on_call"] for each in trail(desk, "REFUSED"))
    assert refused["users"] == [ann.id]


async def test_an_unreadable_answer_gives_nobody_the_right_but_the_fallback(desk: Desk, slack: Playground) -> None:
    boss = slack.user("boss")
    with_source(desk, fallback=[boss.id])
    says(desk, "ann@playground.example", "and maybe Bea")
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    button = approve_button(desk)
    (told,) = texts(await room.press("ann", button))
    assert told.startswith(":no_entry:")
    assert not texts(await room.press("boss", button))
    ((used,),) = (each["on_call"] for each in trail(desk, "VOTED_ON_CALL"))
    assert (used["from"], used["people"], used["users"]) == ("fallback", [boss.id], [boss.id])
    assert "something else than email addresses" in used["problem"]


async def test_without_a_fallback_nobody_may_approve_while_the_source_fails(desk: Desk, slack: Playground) -> None:
    with_source(desk)
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    for name in ("ann", "operator", "approver"):
        assert texts(await room.press(name, approve_button(desk)))
    assert asked(desk).state is ApprovalState.PENDING
    assert all(each["on_call"][0]["users"] == [] for each in trail(desk, "REFUSED") if "on_call" in each)


async def test_while_slack_does_not_say_whose_an_address_is_nobody_may_approve(
    desk: Desk, slack: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people_of_slack, "VERIFY_SECONDS", 0.8)
    with_source(desk)
    says(desk, "ann@playground.example")
    room = SlackRoom(desk, slack)
    slack.user("ann")
    await room.slash("operator", "restart North")
    slack.fault("status", "users.lookupByEmail", times=0, status=503)
    (told,) = texts(await room.press("ann", approve_button(desk)))
    assert "didn't confirm" in told or "can't be" in told or "couldn't" in told
    assert asked(desk).state is ApprovalState.PENDING


async def test_a_guest_on_call_may_not_approve(desk: Desk, slack: Playground) -> None:
    guest = slack.user("visitor", is_restricted=True)
    with_source(desk)
    says(desk, guest.id)
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North")
    assert texts(await room.press("visitor", approve_button(desk)))
    assert asked(desk).state is ApprovalState.PENDING


async def test_an_escalation_mentions_whoever_is_on_call_when_it_is_posted(desk: Desk, slack: Playground) -> None:
    ann, boss = slack.user("ann"), slack.user("boss")
    with_source(desk, fallback=[boss.id])
    room, now = SlackRoom(desk, slack), datetime.now(UTC)
    source = next(each for each, _ in on_call_sources(desk.config))
    payload = {"alert_id": "a1", "people": ["U0BEA", str(source)]}
    message = PendingMessage(1, 1, CALL, "a1/call/1", payload, {}, 0, now, now, "")
    says(desk, "ann@playground.example", ann.id)
    assert (await room.on_call.resolve(message)).payload["people"] == ["U0BEA", ann.id]
    room = SlackRoom(desk, slack)
    (desk.config.path.parent / "on-call").unlink()
    assert (await room.on_call.resolve(message)).payload["people"] == ["U0BEA", boss.id]
    gone = replace(message, payload={**payload, "people": ["oncall:0123456789ab"]})
    assert (await room.on_call.resolve(gone)).payload["people"] == []
