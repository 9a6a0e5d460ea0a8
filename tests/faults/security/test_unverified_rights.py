"""Rights that can't be verified, requests that come late, and clicks by several people: nothing runs by surprise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bot.access import people
from bot.inbound.dispatcher import Response
from bot.views.blocks import blocks_of
from bot.views.buttons import command_button
from bot.views.cards.approval import ApprovalDetails, approval_card
from slack_playground import Playground
from slack_playground.blockkit.messages import check_message
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.storage.tables import jobs
from tests.support.intake.approvals import Desk, a_desk
from tests.support.slack.slack_host import SlackRoom, texts

HOUR = timedelta(hours=1)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(people, "VERIFY_SECONDS", 0.3)
    with a_desk(tmp_path, required_for=["rollback"]) as made:
        access = {"operators": ["U0OPERATOR", "U0ADMIN"], "approvers": ["U0APPROVER"], "viewers": ["*"]}
        made.document["slack"]["access"] = access
        made.configure()
        yield made


def filed(desk: Desk) -> list[tuple[str, str]]:
    """The handlers and ids of all jobs."""
    query = select(jobs.c.handler, jobs.c.task_id).order_by(jobs.c.job_id)
    return desk.ledger.read(lambda connection: [tuple(row) for row in connection.execute(query)])


def try_again(dealt: Response) -> dict[str, Any]:
    """The only button of what is told."""
    (told,) = dealt.messages
    content = (told.payload or {})["content"]
    assert check_message(content) == []
    (button,) = blocks_of(content)[-1]["elements"]
    assert button["text"]["text"] == "Try again"
    found: dict[str, Any] = button
    return found


async def dealt_with(room: SlackRoom, kind: str, payload: dict[str, Any], at: datetime | None = None) -> Response:
    return await room.deal(kind, {"team_id": room.workspace, **payload}, at=at)


async def slash(room: SlackRoom, text: str, at: datetime | None = None) -> Response:
    user = room.slack.user("operator").id
    payload = {"command": "/supervisor", "text": text, "user_id": user, "channel_id": "C0OPS"}
    return await dealt_with(room, "slash_commands", payload, at)


@pytest.mark.parametrize("method", ["users.info", "usergroups.users.list"])
async def test_a_right_that_slack_can_not_confirm_is_refused_at_once_and_nothing_runs_later(
    desk: Desk, slack: Playground, method: str
) -> None:
    ann = slack.user("ann")
    desk.document["slack"]["access"]["operators"].append(slack.group("oncall", ann))
    desk.configure()
    room = SlackRoom(desk, slack)
    slack.fault("status", method, status=503, times=0)
    dealt = await room.slash("ann", "restart North hotfix")
    assert texts(dealt)[0].startswith(":no_entry: Slack couldn't confirm who you are, so nothing was done.")
    assert dealt.audit is not None
    assert (dealt.audit.action, dealt.audit.outcome) == ("REFUSED", "failure")
    slack.server.world.faults.clear()
    assert filed(desk) == []
    button = try_again(dealt)
    assert not texts(await room.press("ann", button))
    assert [handler for handler, _ in filed(desk)] == ["restart_watcher"]
    (job,) = desk.ledger.read(lambda connection: list(connection.execute(select(jobs))))
    assert job.label == "hotfix"


async def test_a_vote_whose_right_slack_can_not_confirm_does_not_count(desk: Desk, slack: Playground) -> None:
    room = SlackRoom(desk, slack)
    desk.document["slack"]["approvals"]["required_for"] = ["restart"]
    desk.configure()
    await room.slash("operator", "restart North")
    ((approval, _),) = desk.approvals.waiting()
    elements = [
        each for block in blocks_of(approval_card(ApprovalDetails(approval))) for each in block.get("elements", ())
    ]
    approve = next(each for each in elements if each.get("action_id") == "approval:approve")
    slack.fault("status", "users.info", status=503, times=0)
    (told,) = texts(await room.press("approver", approve))
    assert "Slack couldn't confirm who you are" in told
    ((approval, votes),) = desk.approvals.waiting()
    assert (approval.state, votes) == (ApprovalState.PENDING, ())


async def test_a_command_that_is_reached_an_hour_later_is_refused_and_a_question_is_answered(
    desk: Desk, slack: Playground
) -> None:
    room, then = SlackRoom(desk, slack), datetime.now(UTC) - HOUR
    dealt = await slash(room, "restart North hotfix", then)
    assert "This request is more than 5 minutes old, so nothing was done" in texts(dealt)[0]
    assert filed(desk) == []
    assert "more than 5 minutes old" not in texts(await slash(room, "help", then))[0]
    await room.press("operator", try_again(dealt))
    assert [handler for handler, _ in filed(desk)] == ["restart_watcher"]


async def test_a_mention_that_slack_delivers_an_hour_later_is_refused(desk: Desk, slack: Playground) -> None:
    room = SlackRoom(desk, slack)
    event = {
        "type": "app_mention",
        "user": slack.user("operator").id,
        "text": "<@U0BOT> restart North",
        "channel": "C0OPS",
        "ts": f"{(datetime.now(UTC) - HOUR).timestamp():.6f}",
    }
    dealt = await dealt_with(room, "events_api", {"type": "event_callback", "event_id": "E1", "event": event})
    assert "more than 5 minutes old" in texts(dealt)[0]
    assert filed(desk) == []


async def test_a_refused_click_and_an_accepted_one_on_the_same_button_have_ids_of_their_own(
    desk: Desk, slack: Playground
) -> None:
    room, button = SlackRoom(desk, slack), command_button(desk.gateway.parse("restart North"), "n1")
    refused = await room.press("viewer", button)
    assert refused.audit is not None
    assert not texts(await room.press("operator", button))
    ((_, task_id),) = filed(desk)
    assert refused.audit.task_id not in (None, task_id)
    assert not texts(await room.press("operator", button))
    slack.user("admin")
    (told,) = texts(await room.press("admin", button))
    assert "Operator has already used this button" in told
    assert filed(desk) == [("restart_watcher", task_id)], "an accepted press counts once"


async def test_a_click_that_is_delivered_twice_is_one_command(desk: Desk, slack: Playground) -> None:
    room, button = SlackRoom(desk, slack), command_button(desk.gateway.parse("restart North"), "n1")
    await room.press("operator", button)
    room.key = "k1"
    assert not texts(await room.press("operator", button))
    assert len(filed(desk)) == 1
