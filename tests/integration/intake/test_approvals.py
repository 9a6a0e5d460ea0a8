"""Approvals on a real ledger: asked for, voted on, carried out once or not at all, and always written down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.common import crashpoints
from supervisor_core.intake.approvals.rights import RightsUnknown, host_rights
from supervisor_core.intake.approvals.rows import ASKED
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice
from supervisor_core.intake.approvals.service import PATIENCE, RETRY, Approvals, RequestRefused, VoteRefused
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage import outbox
from tests.support.intake.approvals import ANNA, BOB, CARD, CARL, MINUTE, NOW, SHELL, Desk, a_desk

S = ApprovalState
YES, NO = Choice.APPROVE, Choice.DENY


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path) as made:
        yield made


def approved(desk: Desk, by: Issuer = BOB) -> Approval:
    asked = desk.ask()
    decision = desk.approvals.vote(asked.approval_id, by, YES, now=NOW + MINUTE)
    assert decision.approval.state is S.APPROVED
    return decision.approval


def state(desk: Desk) -> ApprovalState:
    found = desk.approvals.of_task("task_1")
    assert found is not None
    return found.state


def version_of_card(desk: Desk, kind: str = jobs.CARD) -> int:
    waiting = desk.ledger.read(lambda connection: outbox.due_messages(connection, kind, NOW + timedelta(days=9999)))
    return next((each.version for each in waiting if each.subject == "task_1"), 0)


def test_one_road_from_the_question_to_the_end(desk: Desk) -> None:
    """The command keeps its task id all the way, each row of the trail has it, and the card is told anew."""
    asked = desk.ask()
    assert (asked.state, desk.jobs(), version_of_card(desk)) == (S.PENDING, [], 1)
    assert asked.expires_at == asked.due_at == desk.approvals.due_at() == NOW + 15 * MINUTE
    decision = desk.approvals.vote(asked.approval_id, BOB, YES, "looks fine", now=NOW + MINUTE)
    assert (decision.approval.state, [vote.reason for vote in decision.votes]) == (S.APPROVED, ["looks fine"])
    assert desk.jobs() == [], "the vote itself carries nothing out"
    (carried,) = desk.approvals.carry_on(NOW + MINUTE)
    assert carried.state is S.EXECUTING
    (job,) = desk.jobs()
    assert (job.issuer, job.label, job.door, job.handler) == (ANNA, "hotfix", "slack", "restart_watcher")
    assert job.approvals == ({"id": BOB.id, "name": "bob", "at": "2026-02-05T14:31:00.000000Z"},)
    assert desk.approvals.settle(NOW + 2 * MINUTE) == []
    desk.end_jobs()
    (ended,) = desk.approvals.settle(NOW + 2 * MINUTE)
    assert (ended.state, ended.finished_at, ended.due_at) == (S.DONE, NOW + 2 * MINUTE, None)
    assert desk.actions() == ["APPROVAL_REQUESTED", "APPROVED", "RESTART_WATCHER"]
    assert {row["task_id"] for row in desk.trail()} == {"task_1"}
    assert [row["actor"] for row in desk.trail()] == [ANNA.id, BOB.id, ANNA.id]
    assert version_of_card(desk) >= 5


def test_a_job_that_failed_makes_it_failed_and_names_those_that_were_not_begun(desk: Desk) -> None:
    asked = desk.ask("restart all hotfix")
    desk.approvals.vote(asked.approval_id, BOB, YES, now=NOW)
    desk.approvals.carry_on(NOW)
    desk.end_jobs(success=False, most=1)
    desk.approvals.settle(NOW)
    found = desk.approvals.of_task("task_1")
    assert found is not None
    assert (found.state, found.reason) == (S.FAILED, "Failed on North. Not started: South.")


def test_who_is_no_approver_at_this_moment_does_not_vote_and_that_is_written_down(desk: Desk) -> None:
    asked = desk.ask()
    desk.rights.take(BOB, Right.APPROVER)
    with pytest.raises(VoteRefused, match="aren't allowed to use restart"):
        desk.approvals.vote(asked.approval_id, BOB, YES, now=NOW)
    with pytest.raises(VoteRefused, match="a guest"):
        desk.approvals.vote(asked.approval_id, CARL, NO, now=NOW, allowed=lambda _: "You are a guest.")
    desk.rights.unknown = "Slack does not answer."
    with pytest.raises(RightsUnknown):
        desk.approvals.vote(asked.approval_id, CARL, YES, now=NOW)
    assert (state(desk), desk.actions()) == (S.PENDING, ["APPROVAL_REQUESTED", "REFUSED", "REFUSED"])
    assert desk.trail()[1]["actor"] == BOB.id


def test_a_vote_after_the_end_of_its_time_expires_it_and_does_not_count(desk: Desk) -> None:
    asked = desk.ask()
    with pytest.raises(VoteRefused, match=r"expired at 14:45 UTC.*restart North hotfix"):
        desk.approvals.vote(asked.approval_id, BOB, YES, now=NOW + 15 * MINUTE)
    assert (state(desk), desk.actions()) == (S.EXPIRED, ["APPROVAL_REQUESTED", "EXPIRED"])


@pytest.mark.parametrize(("who", "right"), [(ANNA, Right.OPERATOR), (BOB, Right.APPROVER)])
def test_a_right_that_was_lost_before_the_execution_cancels_it(desk: Desk, who: Issuer, right: Right) -> None:
    approved(desk)
    desk.rights.take(who, right)
    (ended,) = desk.approvals.carry_on(NOW + MINUTE)
    assert (ended.state, desk.jobs()) == (S.CANCELLED, [])
    assert ended.reason.startswith(f"{who.name}, who ")
    assert desk.actions()[-1] == "CANCELLED"
    assert desk.trail()[-1]["actor"] == "supervisor"


def test_rights_that_can_not_be_found_out_are_waited_for_but_not_for_ever(desk: Desk) -> None:
    approved(desk)
    desk.rights.unknown = "Slack does not answer."
    (waits,) = desk.approvals.carry_on(NOW + MINUTE)
    assert (waits.state, waits.reason, waits.due_at) == (S.APPROVED, "Slack does not answer.", NOW + MINUTE + RETRY)
    assert desk.approvals.carry_on(NOW + MINUTE) == [], "not due again yet"
    (ended,) = desk.approvals.carry_on(NOW + MINUTE + PATIENCE)
    assert (ended.state, desk.jobs()) == (S.EXPIRED, [])
    assert "Slack does not answer." in ended.reason


def test_the_shell_vouches_where_slack_can_not_be_asked_but_not_against_what_is_known(desk: Desk) -> None:
    approved(desk, by=SHELL)
    desk.rights.unknown = "Slack does not answer."
    (done,) = desk.approvals.carry_on(NOW + MINUTE)
    assert (done.state, len(desk.jobs())) == (S.EXECUTING, 1)
    desk.rights.unknown = ""
    other = desk.ask(task_id="task_2")
    desk.approvals.vote(other.approval_id, SHELL, YES, now=NOW)
    desk.rights.take(ANNA, Right.OPERATOR)
    assert desk.approvals.execute(other.approval_id, NOW).state is S.CANCELLED


def test_a_worker_paused_since_makes_it_stale_with_words_and_a_way_on(desk: Desk) -> None:
    approved(desk)
    desk.pause("North")
    (ended,) = desk.approvals.carry_on(NOW + MINUTE)
    assert (ended.state, desk.jobs()) == (S.STALE, [])
    assert ended.reason == "North is now paused. Nothing was done."
    row = desk.trail()[-1]
    assert (row["action"], row["outcome"], row["actor"]) == ("STALE", "failure", "supervisor")


def test_the_requester_and_approvers_cancel_and_nobody_else(desk: Desk) -> None:
    asked = desk.ask()
    desk.rights.take(CARL, Right.APPROVER)
    with pytest.raises(VoteRefused):
        desk.approvals.cancel(asked.approval_id, CARL, now=NOW)
    assert desk.approvals.cancel(asked.approval_id, ANNA, "a mistake", now=NOW).approval.state is S.CANCELLED
    assert not desk.approvals.cancel(asked.approval_id, ANNA, now=NOW).counted
    assert desk.actions() == ["APPROVAL_REQUESTED", "REFUSED", "CANCELLED"]
    other = desk.ask(task_id="task_2")
    desk.approvals.vote(other.approval_id, BOB, YES, now=NOW)
    assert desk.approvals.cancel(other.approval_id, CARL, now=NOW, allowed=lambda _: "").approval.state is S.CANCELLED


def test_what_is_being_carried_out_can_not_be_cancelled(desk: Desk) -> None:
    asked = approved(desk)
    desk.approvals.carry_on(NOW + MINUTE)
    with pytest.raises(VoteRefused, match="It's already running"):
        desk.approvals.cancel(asked.approval_id, ANNA, now=NOW)


def test_the_same_question_twice_is_one_and_somebody_elses_task_id_is_nobodys(desk: Desk) -> None:
    first, second = desk.ask(), desk.ask()
    assert first.approval_id == second.approval_id
    assert desk.actions() == ["APPROVAL_REQUESTED"]
    with pytest.raises(RequestRefused, match="anna has already requested this"):
        desk.ask(by=BOB)


def test_with_nobody_to_approve_it_is_refused_at_once(desk: Desk) -> None:
    desk.document["slack"]["access"]["approvers"] = []
    desk.configure()
    with pytest.raises(RequestRefused, match=r"nobody is configured to give it.*slack\.access\.approvers"):
        desk.ask()
    assert (desk.approvals.of_task("task_1"), desk.actions()) == (None, [])
    desk.document["teams"] = {"archive": {"approvers": ["U0BOB"]}}
    desk.document["workers"]["North"] = {**desk.document["workers"]["North"], "team": "archive"}
    desk.configure()
    desk.ask()
    with pytest.raises(RequestRefused):  # South has no team
        desk.ask("restart all", task_id="task_2")
    desk.document["slack"]["approvals"]["doors"] = ["slack", "cli"]  # then a second shell can
    desk.configure()
    desk.ask("restart all", task_id="task_2")


def test_what_is_asked_for_in_a_direct_message_is_asked_where_people_see_it(desk: Desk) -> None:
    def asked_in(task_id: str, channel: str) -> str | None:
        command = desk.gateway.parse("restart North").issued(ANNA, task_id)
        desk.approvals.request(command, "slack", {"channel": channel}, NOW)
        place = desk.ledger.read(lambda connection: outbox.newest(connection, ASKED, task_id))
        return str(place[1]["channel"]) if place else None

    assert asked_in("task_1", "D0ANNA") is None, "there is no other place"
    desk.document["slack"]["alert_channel"] = "C0ALERTS"
    desk.configure()
    assert asked_in("task_2", "D0ANNA") == asked_in("task_3", "U0ANNA") == "C0ALERTS"
    assert asked_in("task_4", "C0OPS") is None, "the card asks"
    desk.document["slack"]["approval_channel"] = "C0APPROVE"
    desk.configure()
    assert asked_in("task_5", "D0ANNA") == asked_in("task_6", "C0OPS") == "C0APPROVE"


def test_what_this_host_knows_of_rights_by_itself(desk: Desk) -> None:
    rights = host_rights(lambda: desk.config)
    command = desk.ask().command
    assert (
        rights(SHELL, command, Right.APPROVER) == rights(Issuer("schedule:nightly", ""), command, Right.OPERATOR) == ""
    )
    assert "no known rights on this host" in rights(Issuer("file:anna", "anna"), command, Right.OPERATOR)
    assert "no known rights" in rights(Issuer("schedule:nightly", ""), command, Right.APPROVER)
    with pytest.raises(RightsUnknown, match="Slack isn't connected"):
        rights(BOB, command, Right.APPROVER)
    desk.document["slack"]["access"]["approvers"] = []
    desk.configure()
    assert "Nobody is listed" in rights(BOB, command, Right.APPROVER)


def test_a_look_that_fails_for_now_is_tried_again_and_one_that_breaks_keeps_no_other_from_it(desk: Desk) -> None:
    troubled = {"task_1"}

    def observe(command: Command) -> tuple[dict[str, object], ...]:
        if command.task_id in troubled and looks:
            raise RuntimeError("a mistake of ours")
        looks.append(command.task_id)
        return ({"command": "restart", "checkout": None, "workers": [{"id": "North", "paused": False}], "state": "s"},)

    looks: list[str] = []
    approvals = Approvals(desk.ledger, lambda: desk.config, observe, desk.rights)
    for task_id, at in (("task_1", NOW), ("task_2", NOW + MINUTE)):
        command = desk.gateway.parse("restart North").issued(ANNA, task_id)
        approvals.vote(approvals.request(command, "slack", CARD, at).approval_id, BOB, YES, now=at)
    first, second = approvals.carry_on(NOW + MINUTE)
    assert (first.state, first.reason) == (S.APPROVED, "Unexpected error: RuntimeError: a mistake of ours.")
    assert second.state is S.EXECUTING
    troubled.clear()
    (first,) = approvals.carry_on(NOW + MINUTE + RETRY)
    assert first.state is S.EXECUTING


def test_the_end_of_its_time_does_not_end_what_was_approved_at_the_last_moment(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vote comes between the look at what is due and the move."""
    asked = desk.ask()

    def vote_first(name: str) -> None:
        if name == "approvals_t.expired:before":
            monkeypatch.undo()
            desk.approvals.vote(asked.approval_id, BOB, YES, now=NOW + 14 * MINUTE)

    monkeypatch.setattr(crashpoints, "reach", vote_first)
    assert desk.approvals.expire_due(NOW + 15 * MINUTE) == []
    assert (state(desk), desk.actions()) == (S.APPROVED, ["APPROVAL_REQUESTED", "APPROVED"])


def test_who_cancels_while_somebody_approves_still_cancels(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = desk.ask()

    def vote_first(name: str) -> None:
        if name == "approvals_t.cancelled:before":
            monkeypatch.undo()
            desk.approvals.vote(asked.approval_id, BOB, YES, now=NOW)

    monkeypatch.setattr(crashpoints, "reach", vote_first)
    assert desk.approvals.cancel(asked.approval_id, ANNA, now=NOW).approval.state is S.CANCELLED
    assert desk.actions() == ["APPROVAL_REQUESTED", "APPROVED", "CANCELLED"]


def test_a_clock_that_is_set_back_does_not_keep_what_is_agreed_to_waiting(desk: Desk) -> None:
    approved(desk)
    (carried,) = desk.approvals.carry_on(NOW - 60 * MINUTE)
    assert carried.state is S.EXECUTING


def test_who_cancels_right_before_it_is_carried_out_is_heard(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = approved(desk)

    def cancel(point: str) -> None:
        if point == "approvals_t.executing:before":
            desk.approvals.cancel(asked.approval_id, ANNA, now=NOW + MINUTE)

    monkeypatch.setattr(crashpoints, "reach", cancel)
    caplog.set_level("INFO")
    (found,) = desk.approvals.carry_on(NOW + MINUTE)
    assert (found.state, desk.jobs(), desk.actions()[-1]) == (S.CANCELLED, [], "CANCELLED")
    assert "waits" not in caplog.text
