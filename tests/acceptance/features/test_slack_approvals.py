"""Approvals in Slack: what needs one is shown first, people decide, and what they agreed to is done once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from slack_playground.testing.cards import Card
from tests.support.code.checkout_homes import watcher
from tests.support.slack.buttons import pressing
from tests.support.slack.code_homes import CodeInSlack, a_code_home_in_slack
from tests.support.slack.slack_home import settled, started


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
    await card.shows("Roll back 1 commit on OrionMX?")
    await card.shows("Reverts")
    await card.shows("0 of 1")
    await card.shows("hotfix")
    assert home.started_from() == watcher(3)
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("OrionMX rolled back")
    await card.shows("approved by")
    await card.button("Approve").is_gone()
    assert home.started_from() == watcher(2)
    await settled(home)
    assert home.actions() == [
        ("APPROVAL_REQUESTED", "success"),
        ("APPROVED", "success"),
        ("ROLLBACK_CODE", "success"),
    ]
    mark = slack.mark()
    await card.button("Undo").click(as_=operator, confirm=True)
    undo = Card(slack, operator.user, slack.channel("ops").channel, mark)
    for words in (
        "Undo a change to OrionMX?",
        "Approval needed",
        "Undoes",
        "1 commit, 3 files",
        "0 of 1",
        "Expires",
    ):
        await undo.shows(words)
    await undo.button("Approve").click(as_=operator, confirm=True)
    await operator.sees("You requested it")
    assert home.started_from() == watcher(2), "nobody reverses alone what somebody else approved"
    await undo.button("Approve").click(as_=approver, confirm=True)
    await undo.becomes("OrionMX undone")
    assert home.started_from() == watcher(3)
    await card.becomes("undone by")
    await card.button("Undo").is_gone()


async def test_nobody_approves_their_own_and_who_may_not_is_told_so_alone(home: CodeInSlack, slack: Playground) -> None:
    await started(home, slack)
    operator, _approver, viewer = slack.user("operator"), slack.user("approver"), slack.user("viewer")
    card = await operator.slash("/supervisor rollback")
    await card.shows("Approval needed")
    await card.button("Approve").click(as_=operator, confirm=True)
    await operator.sees("You requested it")
    await card.button("Approve").click(as_=viewer, confirm=True)
    await viewer.sees("is limited to approvers")
    await card.button("Cancel").click(as_=viewer, confirm=True)
    await card.shows("0 of 1")
    await card.button("Cancel").click(as_=operator, confirm=True)
    await card.becomes("cancelled")
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
    late = await pressing(card, "Approve", approver)
    await card.button("Deny").click(as_=approver)
    form = await approver.modal()
    await form.fill("Why?", "not before the backup <!channel>")
    await form.submit()
    await card.becomes("denied by")
    await card.shows("not before the backup")
    await late()
    await approver.sees("It was already denied by Approver. Nothing changed")
    await settled(home)
    assert ("DENIED", "failure") in home.actions()
    assert home.approval()["state"] == "denied"
    assert home.rows("select * from jobs_t") == []
    assert home.started_from() == watcher(3)


async def test_a_commit_pushed_meanwhile_makes_it_out_of_date_and_a_new_preview_is_a_button_away(
    home: CodeInSlack, slack: Playground
) -> None:
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    card = await operator.slash("/supervisor rollback")
    await card.shows("Approval needed")
    home.clones.checkout.commit({"data/late.txt": "late\n"}, "Add what came late")
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("out of date")
    await card.shows("checkout was at")
    await card.button("Approve").is_gone()
    assert home.started_from() == watcher(3)
    await card.button("New preview").click(as_=operator, confirm=True)
    again = await slack.channel("ops").shows("Add what came late")
    await again.button("Approve").click(as_=approver, confirm=True)
    await again.becomes("OrionMX rolled back")
    await settled(home)
    assert [action for action, _ in home.actions()] == [
        "APPROVAL_REQUESTED",
        "APPROVED",
        "STALE",
        "APPROVAL_REQUESTED",
        "APPROVED",
        "ROLLBACK_CODE",
    ]


async def test_several_votes_are_counted_on_the_card_and_each_person_counts_once(
    tmp_path: Path, slack: Playground
) -> None:
    access = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER", "U0ADMIN"]}
    with a_code_home_in_slack(tmp_path, access=access, approvals={"votes": 2}) as home:
        await started(home, slack)
        operator, approver, admin = slack.user("operator"), slack.user("approver"), slack.user("admin")
        card = await operator.slash("/supervisor rollback")
        await card.shows("0 of 2")
        await card.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("1 of 2")
        await card.button("Approve").click(as_=approver, confirm=True)
        await card.button("Approve").click(as_=admin, confirm=True)
        await card.becomes("OrionMX rolled back")
        await settled(home)
        assert [action for action, _ in home.actions()] == ["APPROVAL_REQUESTED", "APPROVED", "ROLLBACK_CODE"]
        votes = home.details("ROLLBACK_CODE")["approvals"]
        assert [vote["id"].rpartition("/")[2] for vote in votes] == ["U0APPROVER", "U0ADMIN"]


async def test_people_are_asked_in_the_channel_for_it_and_the_card_stays_where_the_command_was_given(
    tmp_path: Path, slack: Playground
) -> None:
    with a_code_home_in_slack(tmp_path, approval_channel="C0APPROVALS") as home:
        slack.channel("approvals")
        await started(home, slack)
        operator, approver = slack.user("operator"), slack.user("approver")
        card = await operator.slash("/supervisor rollback 1 hotfix")
        await card.shows("Approval requested in #approvals")
        await card.button("Approve").is_gone()
        question = await slack.channel("approvals").shows("Roll back 1 commit on OrionMX?")
        await question.shows("Reverts")
        await question.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("OrionMX rolled back")
        await question.becomes("approved and done")
        await question.button("Approve").is_gone()
        await settled(home)
        asked, told = slack.channel("approvals").messages()
        assert (told["thread_ts"], told["text"]) == (asked["ts"], "<@U0APPROVER> OrionMX rolled back 1 commit.")


async def test_it_expires_across_a_restart_and_a_vote_after_that_changes_nothing(
    tmp_path: Path, slack: Playground
) -> None:
    with a_code_home_in_slack(tmp_path, approvals={"expires_minutes": 0.1}) as home:
        await started(home, slack)
        operator, approver = slack.user("operator"), slack.user("approver")
        card = await operator.slash("/supervisor rollback")
        await card.shows("Approval needed")
        late = await pressing(card, "Approve", approver)
        assert home.supervisor("stop").returncode == 0
        await slack.connected(0)
        await started(home, slack)
        slack.patience = 15
        await card.becomes("expired without a decision")
        await card.button("Approve").is_gone()
        await late()
        await approver.sees("It has already expired. Nothing changed")
        await operator.slash("/supervisor approvals")
        await operator.sees("You have no pending requests")
        await approver.slash("/supervisor approvals")
        await approver.sees("Nothing needs approval")
        assert home.actions()[:2] == [("APPROVAL_REQUESTED", "success"), ("EXPIRED", "failure")]
        assert home.started_from() == watcher(3)


async def test_what_waits_is_listed_for_approvers_with_buttons_that_decide_also_after_a_restart(
    home: CodeInSlack, slack: Playground
) -> None:
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    card = await operator.slash("/supervisor rollback 1 hotfix")
    await card.shows("Approval needed")
    listed = await approver.slash("/supervisor approvals")
    await listed.is_private()
    await listed.shows("1 command needs approval")
    assert home.supervisor("stop").returncode == 0
    await slack.connected(0)
    await started(home, slack)
    await listed.button("Approve").click(confirm=True)
    await card.becomes("OrionMX rolled back")
