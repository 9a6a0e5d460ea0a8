"""Approvals at the shell: listed, decided as `cli:name`, and waited for by whoever sent the command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

import pytest

from supervisor_core.cli.host import shell_issuer
from supervisor_core.intake.approvals.rules import ApprovalState
from tests.support.homes import SUPERVISOR
from tests.support.intake.approval_homes import ApprovalHome, an_approval_home
from tests.support.waiting import wait_until

S = ApprovalState


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ApprovalHome]:
    with an_approval_home(tmp_path / "home") as made:
        yield made


def actions(home: ApprovalHome, task_id: str) -> list[str]:
    return [row["action"] for row in home.audit(task_id)]


def test_what_waits_is_listed_for_people_and_for_programs(home: ApprovalHome) -> None:
    asked = home.ask()
    head, row = home.supervisor("approvals").stdout.splitlines()
    assert head.split() == ["STATE", "VOTES", "EXPIRES", "REQUESTED", "BY", "COMMAND", "APPROVAL", "EFFECT"]
    for word in (asked.approval_id, "pending", "0 of 1", "in 1", "anna", "restart OrionMX hotfix"):
        assert word in row
    (told,) = home.waiting()
    assert (told["approval_id"], told["task_id"], told["votes"]) == (asked.approval_id, asked.task_id, [])
    assert (told["effect"], told["text"]) == ("restart OrionMX", "restart OrionMX hotfix")


def test_approved_at_the_shell_it_is_carried_out_by_the_next_pass_and_the_trail_says_who(home: ApprovalHome) -> None:
    asked = home.ask()
    done = home.supervisor("approvals", "approve", asked.approval_id, "seen", "it")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Approved: restart OrionMX hotfix is running (task_")
    assert "No daemon is running. The next pass" in done.stdout
    again = home.json("approvals", "approve", asked.approval_id)
    assert (again["success"], again["state"], len(again["votes"])) == (True, "executing", 1)
    home.supervisor("once")
    assert home.waiting() == []
    assert home.state(asked.approval_id) is S.DONE
    requested, decided, executed = home.audit(asked.task_id)
    assert [row["action"] for row in (requested, decided, executed)] == [
        "APPROVAL_REQUESTED",
        "APPROVED",
        "RESTART_WATCHER",
    ]
    lines = [line for line in home.supervisor("audit").stdout.splitlines() if asked.task_id in line]
    for line, text in zip(lines, ("restart: approval requested", "restart: approved", "  restart  "), strict=True):
        assert text in line
    me = shell_issuer()
    assert (decided["actor"], json.loads(decided["details_json"])["reason"]) == (me.id, "seen it")
    assert [each["id"] for each in json.loads(executed["details_json"])["approvals"]] == [me.id]


def test_denied_at_the_shell_it_stays_denied(home: ApprovalHome) -> None:
    asked = home.ask()
    denied = home.supervisor("approvals", "deny", asked.task_id, "not now")
    assert (denied.returncode, denied.stdout) == (
        0,
        f"Denied by {shell_issuer().name}: restart OrionMX hotfix. Reason: not now.\n",
    )
    late = home.supervisor("approvals", "approve", asked.approval_id)
    assert (late.returncode, late.stdout) == (1, "")
    assert "It was already denied" in late.stderr
    assert (home.jobs(asked.task_id), actions(home, asked.task_id)) == (0, ["APPROVAL_REQUESTED", "DENIED"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("approve", "nonsense"), "There's no approval 'nonsense'"),
        (("approve",), "Name the approval"),
        (("agree", "x"), "invalid choice"),
    ],
)
def test_wrong_usage_is_2(home: ApprovalHome, words: tuple[str, ...], says: str) -> None:
    done = home.supervisor("approvals", *words)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_what_was_sent_here_is_not_approved_here_and_can_be_cancelled(home: ApprovalHome) -> None:
    sent = home.json("send", "restart hotfix")
    assert (sent["queued"], sent["approval"]["state"]) == (False, "pending")
    approval_id = sent["approval"]["approval_id"]
    own = home.supervisor("approvals", "approve", approval_id)
    assert (own.returncode, "You requested it" in own.stderr) == (1, True)
    cancelled = home.supervisor("approvals", "cancel", approval_id, "typo")
    assert (cancelled.returncode, cancelled.stdout) == (0, f"Cancelled: restart OrionMX hotfix. By {getuser()}: typo\n")
    assert actions(home, sent["task_id"]) == ["APPROVAL_REQUESTED", "REFUSED", "CANCELLED"]


def test_what_has_moved_on_is_said_and_is_1(home: ApprovalHome) -> None:
    asked = home.ask()
    (home.nas / "00_STATE").mkdir(exist_ok=True)
    (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
    done = home.supervisor("approvals", "approve", asked.approval_id)
    assert done.returncode == 1
    assert done.stderr.startswith("Outdated: restart OrionMX hotfix. OrionMX is now paused. Nothing was done.")
    assert home.jobs(asked.task_id) == 0


def sending(home: ApprovalHome, *words: str) -> subprocess.Popen[str]:
    """`send --wait`, until it says what it waits for."""
    return subprocess.Popen(
        [*SUPERVISOR, "send", "restart hotfix", "--wait", *words],
        cwd=home.folder,
        env=home.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def asked_for(home: ApprovalHome) -> str:
    (told,) = wait_until(home.waiting, 20, "it waits for an approval")
    return str(told["approval_id"])


def test_send_says_what_it_waits_for_and_comes_back_with_the_outcome(home: ApprovalHome) -> None:
    with sending(home) as sent:
        approval_id = asked_for(home)
        assert home.vote(approval_id) is S.EXECUTING
        home.supervisor("once")
        said, _ = sent.communicate(timeout=30)
    assert sent.returncode == 0, said
    assert "Waiting for approval: restart OrionMX hotfix" in said
    assert f"from someone else: `supervisor approvals approve {approval_id}`" in said
    assert "Approved by bob." in said
    assert "ok: " in said


def test_send_comes_back_with_1_when_nobody_decides(tmp_path: Path) -> None:
    with an_approval_home(tmp_path / "home", expires_minutes=0.02) as home:
        sent = home.supervisor("send", "restart hotfix", "--wait")
        assert sent.returncode == 1
        assert "Expired: restart OrionMX hotfix. Nobody decided within 0.02 minutes." in sent.stdout
        assert [row["action"] for row in home.audit()] == ["APPROVAL_REQUESTED", "EXPIRED"]


def test_send_names_nobody_else_where_the_requester_may_approve(tmp_path: Path) -> None:
    with an_approval_home(tmp_path / "home", self_approval=True) as home:
        sent = home.supervisor("send", "restart hotfix")
        (request,) = home.waiting()
        assert f"UTC: `supervisor approvals approve {request['approval_id']}`" in sent.stdout
        assert home.supervisor("approvals", "approve", request["approval_id"]).returncode == 0
