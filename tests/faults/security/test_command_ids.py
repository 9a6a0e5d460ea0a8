"""Command ids that somebody with the drive knows or guesses: none of them answers for a command of another door."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.outbound.content import MessageComposer
from bot.requests.request import Request
from bot.views.blocks import without_blocks
from supervisor_core.commands.command import Issuer
from supervisor_core.intake.approvals.rules import ApprovalState, Choice
from supervisor_core.intake.approvals.service import RequestRefused
from supervisor_core.intake.inbox import FlagIntake, SweepResult
from supervisor_core.intake.schedules.rules import RunState, Schedule
from supervisor_core.intake.schedules.runner import SchedulesChore
from supervisor_core.intake.schedules.service import Schedules
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import is_reserved, new_task_id
from supervisor_core.storage import outbox
from tests.support.intake.approvals import ANNA, BOB, MINUTE, NOW, Desk, a_desk

STRANGER = Issuer("file:mallory", "mallory")
FIVE = timedelta(minutes=5)


class Attacked:
    """A desk whose inbox somebody else can write to."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.inbox = desk.config.folder("inbox")

    def drop(self, handler: str, task_id: str, **body: Any) -> None:
        self.inbox.mkdir(exist_ok=True)
        name = f"supervisor_{handler}_North_{task_id}.flag"
        (self.inbox / name).write_text(json.dumps({"task_id": task_id, **body}))

    def sweep(self) -> SweepResult:
        return FlagIntake(self.desk.parts.host, self.desk.ledger, ("North", "South"), None, lambda: NOW).sweep()

    def reasons(self) -> list[str]:
        return [path.read_text() for path in sorted((self.inbox / "rejected").glob("*.reason.txt"))]

    def results(self) -> list[str]:
        results.deliver(self.desk.parts.host, self.desk.ledger)
        return sorted(path.name for path in self.desk.config.folder("outbox").glob("*.json"))

    def squat(self, task_id: str, handler: str = "diagnostics", door: str = "flag") -> None:
        """A job under this id, as a program from before the refusals left it."""
        new = jobs.NewJob(task_id, "North", handler, {}, None, STRANGER, door, NOW)
        assert self.desk.ledger.write(lambda connection: jobs.file(connection, "TestHost", new, NOW))

    def schedule(self, words: str = "pause North") -> Schedule:
        params = self.desk.gateway.parse(f'schedule add often "*/5 * * * *" {words}').params
        Schedules(self.desk.ledger).add(params, "North", ANNA, "UTC", "task_of_often", None, NOW)
        return self.one()

    def one(self) -> Schedule:
        (found,) = Schedules(self.desk.ledger).list()
        return found.schedule

    def chore(self) -> SchedulesChore:
        return SchedulesChore(self.desk.ledger, lambda: self.desk.config, self.desk.approvals, self.desk.rights)

    def card(self, task_id: str = "task_1") -> str:
        far = datetime(2100, 1, 1, tzinfo=UTC)
        waiting = self.desk.ledger.read(lambda connection: outbox.pending_messages(connection, (jobs.CARD,), far))
        (card,) = [each for each in waiting if each.subject == task_id]
        content = self.desk.ledger.read(lambda connection: MessageComposer().content(connection, card, NOW))
        assert content is not None
        return str(without_blocks(content)["text"])


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    with a_desk(tmp_path) as desk:
        yield Attacked(desk)


def test_a_flag_with_the_id_of_a_pending_approval_is_rejected_and_the_command_is_carried_out(
    attacked: Attacked,
) -> None:
    desk = attacked.desk
    asked = desk.ask()
    attacked.drop("diagnostics", "task_1")
    assert attacked.sweep() == SweepResult(rejected=1)
    assert "The command id task_1 belongs to an approval" in attacked.reasons()[0]
    assert desk.jobs() == []
    assert not any("task_1" in name for name in attacked.results()), "nobody who waits for it is answered by this"
    assert {row["action"] for row in desk.trail() if row["task_id"] == "task_1"} == {"APPROVAL_REQUESTED"}
    desk.approvals.vote(asked.approval_id, BOB, Choice.APPROVE, now=NOW)
    desk.approvals.carry_on(NOW)
    (job,) = desk.jobs()
    assert (job.handler, job.door) == ("restart_watcher", "slack")


@pytest.mark.parametrize("worker_id", ["North", "South"])
def test_a_flag_with_the_id_of_another_door_s_job_is_rejected(attacked: Attacked, worker_id: str) -> None:
    command = attacked.desk.gateway.parse(f"pause {worker_id}")
    attacked.desk.gateway.submit(command, ANNA, "slack", "task_1")
    attacked.drop("pause", "task_1")
    assert attacked.sweep() == SweepResult(rejected=1)
    assert "belongs to a command from slack" in attacked.reasons()[0]
    assert [job.worker_id for job in attacked.desk.jobs()] == [worker_id]


def test_the_forms_that_slack_and_schedules_make_are_reserved_for_them(attacked: Attacked) -> None:
    typed = Request("", "U1", "T1", "C1", NOW, "envelope")
    pressed = Request("", "U1", "T1", "C1", NOW, "envelope", button="restart C1 1.2")
    made = [typed.task_id, pressed.task_id, attacked.schedule().task_at(NOW)]
    assert [is_reserved(task_id) for task_id in made] == [True, True, True]
    assert not is_reserved(new_task_id(NOW))
    assert not is_reserved("task_20260205_001")
    for task_id in made:
        attacked.drop("pause", task_id)
    assert attacked.sweep() == SweepResult(rejected=3)
    assert all("reserved" in reason for reason in attacked.reasons())
    assert not set(made) & {row["task_id"] for row in attacked.desk.trail()}


def test_a_claimed_flag_whose_token_is_a_reserved_id_is_rejected(attacked: Attacked) -> None:
    """Without an id in its name or content a flag takes that of its token, which the drive can choose."""
    (attacked.inbox / "processing").mkdir(parents=True)
    task_id = attacked.schedule().task_at(NOW + FIVE)
    (attacked.inbox / "processing" / f"supervisor_pause_North.flag.{task_id}").write_text("{}")
    assert attacked.sweep() == SweepResult(rejected=1)
    assert attacked.desk.jobs(task_id) == []


def test_flags_that_were_dropped_in_advance_for_a_schedule_suppress_no_run(attacked: Attacked) -> None:
    """From one result file: the same tail, and the times of the runs to come."""
    schedule, chore = attacked.schedule(), attacked.chore()
    assert chore.work(NOW + FIVE)
    first = attacked.one().last_task_id
    attacked.desk.end_jobs(task_id=first)
    for number in range(2, 5):
        moment = NOW + number * FIVE
        attacked.drop("diagnostics", f"task_{moment:%Y%m%d_%H%M%S}_{first.rpartition('_')[2]}")
    attacked.sweep()
    for number in range(2, 5):
        assert chore.work(NOW + number * FIVE)
        task_id = attacked.one().last_task_id
        assert [job.handler for job in attacked.desk.jobs(task_id)] == ["pause"]
        attacked.desk.end_jobs(task_id=task_id)
    tails = {schedule.task_at(NOW + number * FIVE).rpartition("_")[2] for number in range(5)}
    assert len(tails) == 5, "one id tells nothing of the next"


def test_the_id_of_a_run_is_the_same_after_a_crash_and_is_told_to_nobody(attacked: Attacked) -> None:
    schedule = attacked.schedule()
    due = NOW + FIVE
    assert attacked.one().task_at(due) == schedule.task_at(due)
    assert len(schedule.secret) == 64
    assert schedule.secret not in repr(schedule)


def test_an_approved_command_whose_id_is_taken_fails_and_says_so(
    attacked: Attacked, caplog: pytest.LogCaptureFixture
) -> None:
    desk = attacked.desk
    asked = desk.ask()
    attacked.squat("task_1")
    desk.approvals.vote(asked.approval_id, BOB, Choice.APPROVE, now=NOW + MINUTE)
    with caplog.at_level(logging.INFO):
        (ended,) = desk.approvals.carry_on(NOW + MINUTE)
    assert ended.state is ApprovalState.FAILED
    assert ended.reason.startswith("Not run: The command id task_1 belongs to another command (diagnostics, from flag)")
    assert "as approved" not in caplog.text
    assert "failed: Not run" in caplog.text
    assert [job.handler for job in desk.jobs()] == ["diagnostics"]
    refused = desk.trail()[-1]
    assert (refused["action"], refused["outcome"], refused["task_id"]) == ("REFUSED", "failure", "task_1")
    desk.end_jobs()
    assert "failed" in attacked.card()
    assert "belongs to another command" in attacked.card()


def test_a_scheduled_command_whose_id_is_taken_is_a_failure_in_the_list_and_the_log(
    attacked: Attacked, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = attacked.schedule()
    task_id = schedule.task_at(NOW + FIVE)
    attacked.squat(task_id)
    attacked.desk.end_jobs(task_id=task_id)
    with caplog.at_level(logging.INFO):
        assert not attacked.chore().work(NOW + FIVE)
    assert "is carried out" not in caplog.text
    assert "is refused: The command id" in caplog.text
    (found,) = Schedules(attacked.desk.ledger).list()
    assert found.outcome.startswith("refused: The command id")
    assert found.schedule.last is not None
    assert found.schedule.last.state is RunState.REFUSED
    assert attacked.desk.actions()[-1] == "REFUSED"


def test_no_approval_is_asked_for_under_an_id_that_is_taken(attacked: Attacked) -> None:
    attacked.squat("task_1")
    with pytest.raises(RequestRefused, match="belongs to another command"):
        attacked.desk.ask()
    assert attacked.desk.approvals.of_task("task_1") is None


def test_a_command_of_another_door_under_a_taken_id_is_refused_and_its_own_repeat_is_not(attacked: Attacked) -> None:
    gateway = attacked.desk.gateway
    command = gateway.parse("pause North")
    for _ in range(2):
        gateway.submit(command, ANNA, "slack", "task_2")
    assert len(attacked.desk.jobs("task_2")) == 1
    attacked.squat("task_3", "pause")
    with pytest.raises(jobs.IdTaken, match="belongs to another command"):
        gateway.submit(command, ANNA, "slack", "task_3")


def test_the_same_flag_twice_is_answered_with_its_first_outcome(attacked: Attacked) -> None:
    for _ in range(2):
        attacked.drop("pause", "mine")
        attacked.sweep()
        attacked.desk.end_jobs(task_id="mine")
        assert attacked.results() == ["supervisor_result_pause_mine.json"]
        (attacked.desk.config.folder("outbox") / "supervisor_result_pause_mine.json").unlink()
    assert len(attacked.desk.jobs("mine")) == 1
