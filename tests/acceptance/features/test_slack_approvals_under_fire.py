"""Approvals in Slack under fire: whatever is pressed, by whom, how often and how late, it is one execution or none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from slack_playground.testing.cards import Card
from tests.support.sampling import rounds
from tests.support.slack.buttons import pressing
from tests.support.slack.slack_home import SlackHome, a_slack_home, settled, started

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.sampled(of_file=4)]

TEN = [f"voter{number}" for number in range(10)]
IDS = [f"U0{name.upper()}" for name in TEN]
CLICKS = rounds(10, sample=3)
"""Of each of them."""

ACCESS = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER", *IDS]}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", access=ACCESS, approvals={"required_for": ["restart"]}) as made:
        yield made


async def asked(slack: Playground) -> Card:
    card: Card = await slack.user("operator").slash("/supervisor restart hotfix")
    await card.shows("Approval needed")
    return card


def actions(home: SlackHome) -> list[str]:
    return [row["action"] for row in home.trail()]


@pytest.mark.sampled
@pytest.mark.parametrize("votes", [1, 3])
async def test_a_hundred_clicks_of_ten_people_at_once_are_one_execution(
    tmp_path: Path, slack: Playground, votes: int
) -> None:
    approvals = {"required_for": ["restart"], "votes": votes}
    with a_slack_home(tmp_path / "home", access=ACCESS, approvals=approvals) as home:
        await started(home, slack)
        people = [slack.user(name) for name in TEN]
        card = await asked(slack)
        before = home.running_copies("OrionMX")
        presses = [await pressing(card, "Approve", person) for person in people]
        outcomes = await asyncio.gather(*(press() for press in presses * CLICKS))
        assert set(outcomes) == {"acked"}
        await card.becomes("OrionMX restarted")
        await settled(home)
        assert actions(home) == ["APPROVAL_REQUESTED", "APPROVED", "RESTART_WATCHER"]
        (job,) = home.rows("select approvals_json from jobs_t")
        assert job["approvals_json"].count('"id"') == votes
        voters = [row["voter_id"].rpartition("/")[2] for row in home.rows("select * from votes_t order by place")]
        assert len(voters) == votes
        _, word = slack.channel("ops").messages()
        told = " ".join(f"<@{who}>" for who in ("U0OPERATOR", *voters))
        assert word["text"] == f"{told} OrionMX restarted.", "who had a part in it is told once, and nobody else"
        after = home.running_copies("OrionMX")
        assert len(after) == 1
        assert after != before


async def test_everything_pressed_at_once_comes_to_one_end(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    card = await asked(slack)
    presses = [await pressing(card, "Approve", slack.user(name)) for name in TEN[:5]]
    presses += [await pressing(card, "Cancel", slack.user(name)) for name in (*TEN[5:], "operator")]
    await asyncio.gather(*(press() for press in presses))
    await settled(home)
    (approval,) = home.rows("select * from approvals_t")
    carried_out = approval["state"] == "done"
    assert approval["state"] in ("done", "cancelled")
    assert len(home.rows("select * from jobs_t")) == carried_out
    assert actions(home).count("RESTART_WATCHER") == carried_out
    assert actions(home).count("CANCELLED") == (not carried_out)
    await card.becomes("OrionMX restarted" if carried_out else "cancelled")
    await card.button("Approve").is_gone()


async def test_a_button_that_is_pressed_after_the_end_changes_nothing_and_says_so(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    card = await asked(slack)
    voter, late = slack.user("approver"), slack.user("voter0")
    slow = await pressing(card, "Approve", late)
    slow_cancel = await pressing(card, "Cancel", late)
    await card.button("Approve").click(as_=voter, confirm=True)
    await card.becomes("OrionMX restarted")
    daemon_before = home.running_copies("OrionMX")
    assert home.supervisor("stop").returncode == 0
    await slack.connected(0)
    await started(home, slack)
    await slow()
    await late.sees("It was already approved by Approver. Nothing changed")
    await slow_cancel()
    await late.sees("can't be cancelled")
    await settled(home)
    assert actions(home) == ["APPROVAL_REQUESTED", "APPROVED", "RESTART_WATCHER"]
    assert home.running_copies("OrionMX") == daemon_before


async def test_an_old_click_that_is_delivered_again_counts_no_second_time(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    card = await asked(slack)
    await card.button("Approve").click(as_=slack.user("approver"), confirm=True)
    await card.becomes("OrionMX restarted")
    await settled(home)
    clicks = [each for each in slack.journal("envelope") if each["payload"].get("type") == "block_actions"]
    for payload in (clicks[0]["payload"], _later(clicks[0]["payload"])):
        outcome = await slack.server.sockets.deliver("interactive", payload, answers=True)
        assert outcome.outcome == "acked"
    await settled(home)
    assert actions(home) == ["APPROVAL_REQUESTED", "APPROVED", "RESTART_WATCHER"]
    assert len(home.rows("select * from votes_t")) == 1


def _later(payload: dict[str, Any]) -> dict[str, Any]:
    """The same click with another time on it, as somebody would make it up."""
    (action,) = payload["actions"]
    return {**payload, "actions": [{**action, "action_ts": "1999999999.000001"}]}


@pytest.mark.parametrize("about", [{"deleted": True}, {"is_restricted": True}, {"is_ultra_restricted": True}])
async def test_the_deactivated_and_guests_never_approve_though_they_are_listed(
    home: SlackHome, slack: Playground, about: dict[str, Any]
) -> None:
    await started(home, slack)
    card = await asked(slack)
    press = await pressing(card, "Approve", slack.user("approver"))
    slack.user("approver", **about)
    await press()
    await settled(home)
    assert actions(home) == ["APPROVAL_REQUESTED", "REFUSED"]
    assert home.rows("select * from votes_t") == []
    await card.shows("0 of 1")


async def test_an_approver_who_lost_the_role_between_the_vote_and_the_execution_has_approved_nothing(
    tmp_path: Path, slack: Playground
) -> None:
    """Slack does not answer when the right is looked at once more; when it does again, they are not in the group."""
    approver = slack.user("approver")
    group = slack.group("admins", approver)
    access = {"operators": ["U0OPERATOR"], "approvers": [group]}
    with a_slack_home(tmp_path / "home", access=access, approvals={"required_for": ["restart"]}) as home:
        await started(home, slack)
        card = await asked(slack)
        before = home.running_copies("OrionMX")
        slack.fault("status", "usergroups.users.list", after=1, times=1, status=503)
        await card.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("approved, starting")
        slack.group("admins")
        await card.becomes("cancelled")
        await card.shows("no longer has the right")
        await settled(home)
        assert actions(home) == ["APPROVAL_REQUESTED", "APPROVED", "CANCELLED"]
        assert home.rows("select * from jobs_t") == []
        assert home.running_copies("OrionMX") == before


@pytest.mark.parametrize(
    ("method", "error"), [("users.info", "token_revoked"), ("usergroups.users.list", "missing_scope")]
)
async def test_rights_that_cannot_be_verified_at_the_execution_cancel_it_and_say_so(
    tmp_path: Path, slack: Playground, method: str, error: str
) -> None:
    group = slack.group("admins", slack.user("approver"))
    access = {"operators": ["U0OPERATOR"], "approvers": [group]}
    with a_slack_home(tmp_path / "home", access=access, approvals={"required_for": ["restart"]}) as home:
        await started(home, slack)
        card = await asked(slack)
        slack.fault("error", method, after=1, times=0, error=error)
        await card.button("Approve").click(as_=slack.user("approver"), confirm=True)
        await card.becomes("cancelled")
        await card.shows("can't be verified")
        await card.lacks("no longer has the right")
        await settled(home)
        assert actions(home) == ["APPROVAL_REQUESTED", "APPROVED", "CANCELLED"]
        assert home.rows("select * from jobs_t") == []


async def test_while_slack_does_not_say_who_votes_nothing_is_counted_and_later_it_is(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    card = await asked(slack)
    slack.fault("status", "users.info", times=3, status=503)
    await card.button("Approve").click(as_=slack.user("approver"), confirm=True)
    await card.becomes("OrionMX restarted")
    await settled(home)
    assert actions(home) == ["APPROVAL_REQUESTED", "APPROVED", "RESTART_WATCHER"]
