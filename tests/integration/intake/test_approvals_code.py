"""Approvals of commands on code, in real checkouts: bound to what was seen, and refused once that has moved on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor_core.daemon.execution import execute
from supervisor_core.intake.approvals.observed_state import effect, observer
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice, to_go_on
from supervisor_core.intake.approvals.service import Approvals, NothingToDo, RequestRefused
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from tests.support.code.code_homes import CodeHost, a_code_host, picture
from tests.support.code.repositories import STRAIGHT, Clones, origin_and_checkout
from tests.support.intake.approvals import ANNA, BOB
from tests.support.intake.fake_rights import FakeRights

S = ApprovalState


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", dict.fromkeys(("North", "South"), code.checkout.folder)) as made:
        made.document["slack"] = {"access": {"approvers": ["S0ADMINS"]}}
        made.configure()
        made.start()
        yield made


@pytest.fixture
def approvals(place: CodeHost) -> Approvals:
    return Approvals(place.ledger, lambda: place.config, observer(lambda: place.host), FakeRights())


def ask(place: CodeHost, approvals: Approvals, words: str = "rollback North 2 hotfix") -> Approval:
    submitted = Gateway(place.config, place.ledger, approvals).submit(
        place.command(words), ANNA, "slack", task_id="task_1"
    )
    assert submitted.approval is not None
    return submitted.approval


def carry_out(approvals: Approvals, asked: Approval) -> Approval:
    approvals.vote(asked.approval_id, BOB, Choice.APPROVE)
    (ended,) = approvals.carry_on()
    return ended


def test_what_was_approved_is_done_and_its_job_is_held_to_what_was_seen(
    place: CodeHost, approvals: Approvals, code: Clones
) -> None:
    asked = ask(place, approvals)
    assert effect(asked.previews).startswith("reverts 2 commits (")
    before = code.checkout.head
    place.processes.die("South")  # processes come and go, and change nothing of what was agreed to
    place.start("South")
    assert carry_out(approvals, asked).state is S.EXECUTING
    (job,) = place.ledger.read(lambda connection: jobs.of_task(connection, "task_1"))
    assert job.params == {"commits_back": 2, "state": asked.previews[0]["state"]}
    outcome = execute(job, place.host, place.ledger)
    assert outcome is not None
    assert outcome.success, outcome.error
    assert (outcome.details["before"], code.checkout.files()) == (before, STRAIGHT.back(2).files)
    assert [each.state for each in approvals.settle()] == [S.DONE]


def _commit(place: CodeHost, code: Clones) -> None:
    code.checkout.commit({"by hand.txt": "x\n"})


def _edit(place: CodeHost, code: Clones) -> None:
    name = code.checkout.git("diff", "--name-only", "--diff-filter=M", "HEAD~2", "HEAD").split()[0]
    (code.checkout.folder / name).write_text("somebody is at work here\n")


def _pause(place: CodeHost, code: Clones) -> None:
    place.pause("South")


def _push(place: CodeHost, code: Clones) -> None:
    code.comes_in({"pushed.txt": "x\n"})


@pytest.mark.parametrize(
    ("words", "happens", "says"),
    [
        ("rollback North 2 hotfix", _commit, "was at"),
        ("rollback North 2 hotfix", _pause, "South is now paused"),
        ("rollback North 2 hotfix", _edit, "It would now be refused"),
        ("update North", _push, "It would now lead to"),
    ],
)
def test_what_has_moved_on_since_makes_it_stale(
    place: CodeHost, approvals: Approvals, code: Clones, words: str, happens: Callable[..., None], says: str
) -> None:
    code.comes_in()
    asked = ask(place, approvals, words)
    happens(place, code)
    before = picture(code.checkout)
    ended = carry_out(approvals, asked)
    assert (ended.state, place.ledger.read(lambda connection: jobs.of_task(connection, "task_1"))) == (S.STALE, [])
    assert says in ended.reason
    assert to_go_on(ended) == ("To request it again, with a new preview: ", asked.again)
    assert picture(code.checkout) == before


def test_what_moves_between_the_last_look_and_the_handler_is_refused_by_the_handler(
    place: CodeHost, approvals: Approvals, code: Clones
) -> None:
    assert carry_out(approvals, ask(place, approvals)).state is S.EXECUTING
    _commit(place, code)
    (job,) = place.ledger.read(lambda connection: jobs.of_task(connection, "task_1"))
    outcome = execute(job, place.host, place.ledger)
    assert outcome is not None
    assert "The preview is out of date" in str(outcome.error)
    assert [each.state for each in approvals.settle()] == [S.FAILED]


def test_what_would_fail_as_things_are_is_not_asked_for(place: CodeHost, approvals: Approvals, code: Clones) -> None:
    _edit(place, code)
    with pytest.raises(RequestRefused, match="Not requested, because it would fail"):
        ask(place, approvals)
    assert approvals.waiting() == []


def test_for_what_is_so_already_nobody_is_asked(place: CodeHost, approvals: Approvals, code: Clones) -> None:
    with pytest.raises(
        NothingToDo, match=r"Nothing to do for North, South: already up to date\. No worker was stopped"
    ):
        ask(place, approvals, "update North")
    assert approvals.waiting() == []
    code.comes_in()
    assert approvals.find(ask(place, approvals, "update North").approval_id)[0].state is S.PENDING
