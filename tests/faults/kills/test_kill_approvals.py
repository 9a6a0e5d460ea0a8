"""`kill -9` at every move of an approval: whoever tries again finds it before or after that move, and it is carried out
once, or not at all, and told once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor_core.intake.approvals.rules import ApprovalState
from tests.support.intake.approval_homes import ApprovalHome, an_approval_home
from tests.support.programs.armed import armed, distinct
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

S = ApprovalState
ROAD = ("APPROVAL_REQUESTED", "APPROVED", "RESTART_WATCHER")

# Every crash point of an approval that is carried out. `test_no_point_is_forgotten` holds this list against what the
# programs really pass.
ASKED = ("approvals_t.pending:before", "approvals_t.pending:after")
VOTED = ("votes_t.cast:before", "votes_t.cast:after")
CARRIED_OUT = ("approvals_t.executing:before", "approvals_t.executing:after")
ENDED = ("approvals_t.done:before", "approvals_t.done:after")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ApprovalHome]:
    with an_approval_home(tmp_path / "home", self_approval=True) as made:
        yield made


def killed(home: ApprovalHome, point: str, *words: str) -> None:
    done = home.supervisor(*words, program=armed(point))
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stdout, done.stderr)


def told_once(home: ApprovalHome, actions: Sequence[str] = ROAD) -> None:
    """The trail is whole, and has each of these once, with one task id."""
    assert [row["action"] for row in home.audit()] == list(actions)
    assert len({row["task_id"] for row in home.audit()}) == 1
    assert home.supervisor("audit", "verify").returncode == 0


def goes_its_way(home: ApprovalHome, approval_id: str) -> None:
    """Approve it, again or for the first time; then it is carried out once, and ends."""
    assert home.supervisor("approvals", "approve", approval_id).returncode == 0
    assert home.supervisor("once").returncode in (0, 1)
    assert home.waiting() == []
    assert home.state(approval_id) is S.DONE
    told_once(home)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ASKED)
def test_killed_while_it_was_asked_for_it_waits_or_was_never_asked(home: ApprovalHome, point: str) -> None:
    killed(home, point, "send", "restart hotfix")
    asked = home.waiting()
    assert len(asked) == (point in ASKED[1:])
    for each in asked:
        goes_its_way(home, each["approval_id"])
    if not asked:
        told_once_nothing(home)


def told_once_nothing(home: ApprovalHome) -> None:
    assert home.audit() == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(VOTED + CARRIED_OUT))
def test_killed_between_the_vote_and_the_execution_it_is_carried_out_once(home: ApprovalHome, point: str) -> None:
    asked = home.ask()
    killed(home, point, "approvals", "approve", asked.approval_id)
    assert home.state(asked.approval_id) is {
        "votes_t.cast:before": S.PENDING,
        "approvals_t.executing:after": S.EXECUTING,
    }.get(point, S.APPROVED)
    assert home.jobs(asked.task_id) == (point == "approvals_t.executing:after")
    goes_its_way(home, asked.approval_id)
    assert home.jobs(asked.task_id) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ENDED)
def test_killed_while_its_end_was_written_down_it_is_written_down_once(home: ApprovalHome, point: str) -> None:
    asked = home.ask()
    home.supervisor("approvals", "approve", asked.approval_id)
    home.supervisor("once")
    killed(home, point, "approvals")
    assert home.waiting() == []
    assert home.state(asked.approval_id) is S.DONE
    told_once(home)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["votes_t.cast:before", "votes_t.cast:after"])
def test_killed_while_it_was_denied_it_is_denied_once(home: ApprovalHome, point: str) -> None:
    asked = home.ask()
    killed(home, point, "approvals", "deny", asked.approval_id)
    assert home.supervisor("approvals", "deny", asked.approval_id).returncode == 0
    assert (home.state(asked.approval_id), home.jobs(asked.task_id)) == (S.DENIED, 0)
    told_once(home, ("APPROVAL_REQUESTED", "DENIED"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["approvals_t.cancelled:before", "approvals_t.cancelled:after"])
def test_killed_while_it_was_cancelled_it_is_cancelled_once(home: ApprovalHome, point: str) -> None:
    asked = home.ask()
    killed(home, point, "approvals", "cancel", asked.approval_id)
    assert home.supervisor("approvals", "cancel", asked.approval_id).returncode == 0
    assert (home.state(asked.approval_id), home.jobs(asked.task_id)) == (S.CANCELLED, 0)
    told_once(home, ("APPROVAL_REQUESTED", "CANCELLED"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["approvals_t.stale:before", "approvals_t.stale:after"])
def test_killed_while_it_was_found_stale_nothing_is_carried_out(home: ApprovalHome, point: str) -> None:
    asked = home.ask()
    (home.nas / "00_STATE").mkdir(exist_ok=True)
    (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").touch()
    killed(home, point, "approvals", "approve", asked.approval_id)
    home.supervisor("approvals", "approve", asked.approval_id)
    assert (home.state(asked.approval_id), home.jobs(asked.task_id)) == (S.STALE, 0)
    told_once(home, ("APPROVAL_REQUESTED", "APPROVED", "STALE"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["approvals_t.expired:before", "approvals_t.expired:after"])
def test_killed_while_it_expired_it_expires_once(tmp_path: Path, point: str) -> None:
    with an_approval_home(tmp_path / "home", expires_minutes=0.01) as home:
        asked = home.ask()
        wait_until(lambda: datetime.now(UTC) > asked.expires_at, 10, "its time is over")
        killed(home, point, "approvals")
        assert home.waiting() == []
        assert (home.state(asked.approval_id), home.jobs(asked.task_id)) == (S.EXPIRED, 0)
        told_once(home, ("APPROVAL_REQUESTED", "EXPIRED"))


def test_no_point_is_forgotten(home: ApprovalHome, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    program = (sys.executable, "-m", "tests.support.programs.armed", f"trace:{trace}")
    assert home.supervisor("send", "restart hotfix", program=program).returncode == 0
    (asked,) = home.waiting()
    home.supervisor("approvals", "approve", asked["approval_id"], program=program)
    home.supervisor("once", program=program)
    home.supervisor("approvals", program=program)
    passed = [point for point in trace.read_text().split() if point.startswith(("approvals_t", "votes_t"))]
    assert passed == [*ASKED, *VOTED, *CARRIED_OUT, *ENDED]
