"""Approvals in Slack: what needs one is shown first, people decide, and what they agreed to is done once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.playground import Playground
from tests.support.checkout_homes import watcher
from tests.support.code_in_slack import CodeInSlack, a_code_home_in_slack
from tests.support.slack_home import settled, started


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeInSlack]:
    with a_code_home_in_slack(tmp_path) as made:
        yield made


async def test_a_rollback_is_previewed_approved_by_somebody_else_done_once_and_undone(
    home: CodeInSlack, slack: Playground
) -> None:
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    card = await operator.slash("/supervisor rollback 1 hotfix")
    await card.shows("OrionMX: rollback 1 needs an approval")
    await card.shows("1 commit is taken back")
    await card.shows("0 of 1 vote")
    await card.shows("label: hotfix")
    assert home.started_from() == watcher(3)
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("OrionMX: rolled back")
    await card.shows("approved by")
    await card.button("Approve").is_gone()
    assert home.started_from() == watcher(2)
    await settled(home)
    assert home.actions() == [
        ("APPROVAL_REQUESTED", "success"),
        ("APPROVED", "success"),
        ("ROLLBACK_CODE", "success"),
    ]
    await card.button("Undo").click(as_=operator, confirm=True)
    await slack.channel("ops").shows("OrionMX: undone")
    assert home.started_from() == watcher(3)
    await card.becomes("was undone by")
    await card.button("Undo").is_gone()


async def test_nobody_approves_their_own_and_who_may_not_is_told_so_alone(home: CodeInSlack, slack: Playground) -> None:
    await started(home, slack)
    operator, _approver, viewer = slack.user("operator"), slack.user("approver"), slack.user("viewer")
    card = await operator.slash("/supervisor rollback")
    await card.shows("needs an approval")
    await card.button("Approve").click(as_=operator, confirm=True)
    await operator.sees("You asked for it yourself")
    await card.button("Approve").click(as_=viewer, confirm=True)
    await viewer.sees("is for approvers")
    await card.button("Cancel").click(as_=viewer, confirm=True)
    await card.shows("0 of 1 vote")
    await card.button("Cancel").click(as_=operator, confirm=True)
    await card.becomes("was cancelled")
    await card.button("Approve").is_gone()
    await settled(home)
    assert home.actions() == [
        ("APPROVAL_REQUESTED", "success"),
        *[("REFUSED", "failure")] * 3,
        ("CANCELLED", "success"),
    ]
    assert home.started_from() == watcher(3)


async def test_a_denial_ends_it_with_its_reason(home: CodeInSlack, slack: Playground) -> None:
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    card = await operator.slash("/supervisor rollback")
    await card.button("Deny").click(as_=approver)
    form = await approver.modal()
    await form.fill("Why?", "not before the backup <!channel>")
    await form.submit()
    await card.becomes("was denied")
    await card.shows("not before the backup")
    await settled(home)
    assert home.actions()[-1] == ("DENIED", "failure")
    assert home.started_from() == watcher(3)
