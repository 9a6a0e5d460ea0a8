"""Schedules: added, run with their owner's rights as they are, once, across restarts; refused aloud."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import TemporaryError
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.schedules.rules import PATIENCE, RunState, Schedule
from supervisor_core.intake.schedules.runner import ScheduledAnswer, SchedulesChore
from supervisor_core.intake.schedules.service import (
    MOST,
    TOLD,
    NameTaken,
    NoSuchSchedule,
    Schedules,
    ScheduleStatus,
    TooManySchedules,
)
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.storage import outbox
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from tests.support.intake.approvals import ANNA, BOB, MINUTE, NOW, SHELL, Desk, a_desk
from tests.support.waiting import wait_until

DAY = timedelta(days=1)
BERLIN = "Europe/Berlin"
PLACE = {"channel": "C0OPS", "user": "U0ANNA"}
THREE = datetime(2026, 2, 6, 2, 0, tzinfo=UTC)
"""03:00 in Berlin, the night after `NOW`."""


class Planned:
    """A desk with schedules, and what runs them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.schedules = Schedules(desk.ledger)
        self.answers: list[tuple[str, str]] = []
        self.away = ""
        self.chore = self.anew()

    def anew(self) -> SchedulesChore:
        """As after a restart."""
        desk = self.desk
        return SchedulesChore(desk.ledger, lambda: desk.config, desk.approvals, desk.rights, self._answer)

    def _answer(self, schedule: Schedule, command: Command) -> ScheduledAnswer:
        if self.away:
            raise TemporaryError(self.away)
        self.answers.append((schedule.name, command.task_id))
        return ScheduledAnswer(
            (Message("notice", command.task_id, {"channel": "C0OPS", "content": {"text": "all is well"}}),)
        )

    def add(
        self,
        words: str = 'schedule add nightly "daily 03:00" pause North nightly',
        by: Issuer = ANNA,
        at: datetime = NOW,
        zone: str = BERLIN,
        card: dict[str, Any] | None = PLACE,
    ) -> ScheduleStatus:
        params = self.desk.gateway.parse(words).params
        target = self.desk.gateway.parse(params["command"]).target
        return self.schedules.add(params, target, by, zone, f"task_of_{params['name']}", card, at)

    def one(self, now: datetime = NOW) -> ScheduleStatus:
        (found,) = self.schedules.list()
        return found

    def last(self) -> tuple[RunState, str] | None:
        last = self.one().schedule.last
        return (last.state, last.reason) if last else None

    def told(self) -> list[outbox.PendingMessage]:
        """The messages that say that something was refused."""
        far = datetime(2100, 1, 1, tzinfo=UTC)
        return self.desk.ledger.read(lambda connection: outbox.pending_messages(connection, (TOLD,), far))


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[Planned]:
    with a_desk(tmp_path) as desk:
        yield Planned(desk)


def test_it_is_kept_with_its_words_and_zone_and_the_trail_tells_of_it(planned: Planned) -> None:
    made = planned.add()
    assert made.words == "at 03:00 every day (Europe/Berlin)"
    assert made.schedule.next_at == THREE
    assert planned.add() == made, "asked for twice, as after a crash, it is one"
    assert planned.one() == made
    (row,) = planned.desk.trail()
    assert (row["action"], row["actor"], row["target_type"], row["target_id"], row["outcome"]) == (
        "SCHEDULE_ADDED",
        ANNA.id,
        "schedule",
        "nightly",
        "success",
    )
    assert json.loads(row["details_json"])["command"] == "pause North nightly"


def test_a_run_with_nothing_to_do_asks_nobody_and_is_no_failure(planned: Planned) -> None:
    """An update each night is mostly of nothing."""
    desk = planned.desk
    seen = {"command": "restart", "checkout": "/srv/x", "ok": True, "workers": [{"id": "North", "paused": False}]}
    desk.approvals = Approvals(desk.ledger, lambda: desk.config, lambda _: (seen,), desk.rights)
    planned.add('schedule add nightly "daily 03:00" restart North')
    assert planned.anew().work(THREE) is False
    assert planned.last() == (RunState.ANSWERED, "Nothing to do for North: already up to date. No worker was stopped.")
    assert (desk.approvals.waiting(), planned.told()) == ([], [])
    assert planned.one().schedule.next_at == THREE + DAY


def test_a_name_is_taken_in_whatever_case_until_it_is_removed(planned: Planned) -> None:
    planned.add()
    params = planned.desk.gateway.parse('schedule add NIGHTLY "hourly" status all').params
    with pytest.raises(
        NameTaken, match=r"schedule named nightly already exists.*at 03:00 every day.*schedule remove nightly"
    ):
        planned.schedules.add(params, "all", BOB, "UTC", "task_2", None, NOW)
    with pytest.raises(NoSuchSchedule, match="Did you mean nightly"):
        planned.schedules.remove("nightlly", BOB, "task_3", NOW)
    gone = planned.schedules.remove("Nightly", BOB, "task_4", NOW)
    assert planned.schedules.remove("Nightly", BOB, "task_4", NOW).schedule_id == gone.schedule_id, "dealt with twice"
    with pytest.raises(NoSuchSchedule, match="This host has none"):
        planned.schedules.remove("nightly", BOB, "task_5", NOW)
    planned.schedules.add(params, "all", BOB, "UTC", "task_6", None, NOW)
    assert [row["action"] for row in planned.desk.trail()] == ["SCHEDULE_ADDED", "SCHEDULE_REMOVED", "SCHEDULE_ADDED"]
    assert planned.desk.trail()[1]["actor"] == BOB.id


def test_there_are_not_too_many(planned: Planned) -> None:
    for number in range(MOST):
        planned.add(f'schedule add n{number} "hourly" status all')
    with pytest.raises(TooManySchedules, match="Remove one first"):
        planned.add('schedule add more "hourly" status all')


def test_it_runs_when_it_is_due_as_itself_and_once(planned: Planned) -> None:
    planned.add()
    assert planned.chore.due_at() == THREE
    assert not planned.chore.work(THREE - MINUTE)
    assert planned.chore.work(THREE)
    assert not planned.chore.work(THREE + MINUTE)
    assert not planned.anew().work(THREE + MINUTE), "nor after a restart"
    found = planned.one()
    (job,) = planned.desk.jobs(found.schedule.last_task_id)
    assert (job.issuer.id, job.issuer.owner, job.door, job.label) == (
        "schedule:nightly",
        ANNA.id,
        "schedule",
        "nightly",
    )
    assert (found.outcome, found.schedule.next_at) == ("running", THREE + DAY)
    planned.desk.end_jobs(task_id=job.task_id)
    row = planned.desk.trail()[-1]
    assert (row["action"], row["actor"], row["label"]) == ("PAUSE", "schedule:nightly", "nightly - nightly")
    details = json.loads(row["details_json"])
    assert (details["owner"], details["door"]) == (ANNA.id, "schedule")
    assert planned.one().outcome == "succeeded"
    card = planned.desk.ledger.read(lambda connection: outbox.message_place(connection, "card", job.task_id))
    assert card == {"channel": "C0OPS"}


def test_across_the_change_to_summer_time_it_runs_by_the_clocks_of_its_zone(planned: Planned) -> None:
    planned.add(at=datetime(2027, 3, 27, 0, 0, tzinfo=UTC))
    ran = []
    for _ in range(3):
        due = planned.chore.due_at()
        assert due is not None
        planned.chore.work(due)
        planned.desk.end_jobs(task_id=planned.one().schedule.last_task_id)
        ran.append(due)
    assert ran == [datetime(2027, 3, day, hour, tzinfo=UTC) for day, hour in ((27, 2), (28, 1), (29, 1))]


def test_after_its_owner_lost_the_right_it_is_refused_and_said_once_until_it_is_back(planned: Planned) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    planned.desk.rights.take(ANNA, Right.OPERATOR)
    first = NOW + 5 * MINUTE
    assert not planned.chore.work(first)
    assert not planned.chore.work(first + 5 * MINUTE)
    assert planned.desk.jobs(planned.one().schedule.task_at(first)) == []
    refused = planned.desk.trail()[1:]
    assert [(row["action"], row["actor"], row["outcome"]) for row in refused] == [
        ("REFUSED", "schedule:often", "failure")
    ] * 2
    assert "anna, who owns the schedule, no longer has the right" in json.loads(refused[0]["details_json"])["error"]
    (told,) = planned.told()
    assert (told.payload["channel"], told.payload["user"]) == ("C0OPS", "U0ANNA")
    assert (told.payload["note"]["count"], told.payload["note"]["owner"]["id"]) == (2, ANNA.id)
    planned.desk.rights.taken.clear()
    assert planned.chore.work(first + 10 * MINUTE)
    assert planned.one().schedule.refusals == 0


def test_while_nobody_can_be_asked_it_waits_two_minutes_and_is_then_refused(planned: Planned) -> None:
    planned.add()
    planned.desk.rights.unknown = "Slack is not connected."
    assert not planned.chore.work(THREE)
    waits = planned.one().schedule
    assert (waits.next_at, waits.waiting_since, waits.waiting_for) == (THREE, THREE, "Slack is not connected.")
    assert waits.due_at > THREE
    assert not planned.anew().work(THREE + PATIENCE - MINUTE)
    assert planned.desk.actions() == ["SCHEDULE_ADDED"]
    assert not planned.chore.work(THREE + PATIENCE + MINUTE)
    assert planned.desk.actions() == ["SCHEDULE_ADDED", "REFUSED"]
    last = planned.last()
    assert last is not None
    assert last[0] is RunState.REFUSED
    assert "couldn't run within 2 minutes. Slack is not connected." in last[1]
    assert planned.one().schedule.next_at == THREE + DAY


def test_one_by_the_shell_does_not_wait_until_slack_has_said_who_the_others_are(planned: Planned) -> None:
    planned.add('schedule add first "daily 02:59" pause North')
    planned.add('schedule add second "daily 03:00" pause South', by=SHELL)
    desk, answered = planned.desk, threading.Event()

    def rights(who: Issuer, command: Command, right: Right) -> str:
        assert who == SHELL or answered.wait(60)
        return ""

    chore = SchedulesChore(desk.ledger, lambda: desk.config, desk.approvals, rights)
    assert chore.work(THREE)

    def filed() -> list[str]:
        found = desk.ledger.read(lambda rows: jobs.waiting(rows, ["North", "South"], [JobState.QUEUED]))
        return sorted(job.worker_id for job in found)

    assert filed() == ["South"]
    answered.set()
    wait_until(lambda: chore.work(THREE), message="the other is looked at again")
    assert filed() == ["North", "South"]


def test_a_run_that_is_due_while_the_one_before_goes_on_is_skipped(planned: Planned) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    assert planned.chore.work(NOW + 5 * MINUTE)
    assert not planned.chore.work(NOW + 10 * MINUTE)
    assert planned.last() == (RunState.SKIPPED, "The previous run hadn't finished.")
    planned.desk.end_jobs(task_id=planned.one().schedule.last_task_id)
    assert planned.chore.work(NOW + 15 * MINUTE)


def test_what_was_missed_is_run_once_where_it_is_not_long_ago_and_else_said(planned: Planned) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    planned.add('schedule add early "daily 15:45" pause South')
    assert planned.chore.work(NOW + 2 * DAY + 2 * MINUTE)
    often, early = sorted(planned.schedules.list(), key=lambda each: each.schedule.name, reverse=True)
    assert often.schedule.last is not None
    assert (often.schedule.last.at, often.outcome) == (NOW + 2 * DAY, "running")
    assert early.outcome == "missed: No supervisor was running from 2026-02-05 14:45 UTC on."
    assert early.schedule.next_at == datetime(2026, 2, 7, 14, 45, tzinfo=UTC)


def test_a_clock_that_was_years_ahead_and_is_put_right_costs_no_run(planned: Planned) -> None:
    planned.add()
    planned.add('schedule add late "daily 04:00" pause South', at=NOW + 900 * DAY)
    planned.chore.work(NOW + 900 * DAY)
    assert min(each.schedule.next_at for each in planned.schedules.list()) > NOW + 900 * DAY
    assert not planned.chore.work(NOW)
    assert [each.schedule.next_at for each in planned.schedules.list()] == [THREE, THREE + timedelta(hours=1)]
    assert planned.chore.work(THREE)
    assert planned.chore.work(THREE + timedelta(hours=1))
    assert [each.schedule.next_at - DAY for each in planned.schedules.list()] == [THREE, THREE + timedelta(hours=1)]


def test_clocks_that_are_set_back_a_little_run_nothing_twice(planned: Planned) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    assert planned.chore.work(NOW + 5 * MINUTE)
    planned.desk.end_jobs(task_id=planned.one().schedule.last_task_id)
    assert not planned.chore.work(NOW - 5 * MINUTE)
    assert not planned.chore.work(NOW + 5 * MINUTE)
    assert planned.chore.work(NOW + 10 * MINUTE)


def test_a_worker_that_is_gone_is_refused_and_never_taken_for_the_label_of_another(planned: Planned) -> None:
    planned.desk.document["workers"]["Zulu7"] = planned.desk.document["workers"].pop("South")
    planned.desk.configure()
    planned.add('schedule add gone "hourly" pause Zulu7 hotfix')
    del planned.desk.document["workers"]["Zulu7"]
    planned.desk.configure()
    assert planned.desk.gateway.parse("pause Zulu7 hotfix").workers == ("North",), "typed now, it would be a label"
    assert not planned.chore.work(NOW + 30 * MINUTE)
    assert "no longer means what it did when gone was added" in planned.one().outcome
    (told,) = planned.told()
    assert told.payload["note"]["name"] == "gone"


class PowerCut(BaseException):
    """The power goes."""


@pytest.mark.parametrize("words", ["pause North", "restart North", "status all"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whenever_the_power_goes_a_time_is_run_exactly_once(
    planned: Planned, monkeypatch: pytest.MonkeyPatch, words: str, when: str
) -> None:
    planned.add(f'schedule add often "*/5 * * * *" {words}')
    points = {"pause North": "schedules_t.filed", "restart North": "approvals_t.pending"}
    point = f"{points.get(words, 'schedules_t.answered')}:{when}"

    def reach(name: str) -> None:
        if name == point:
            raise PowerCut

    due = NOW + 5 * MINUTE
    monkeypatch.setattr(crashpoints, "reach", reach)
    with pytest.raises(PowerCut):
        planned.chore.work(due)
    monkeypatch.undo()
    planned.anew().work(due + MINUTE)
    task_id = planned.one().schedule.task_at(due)
    assert planned.one().schedule.next_at == due + 5 * MINUTE
    if words == "pause North":
        assert len(planned.desk.jobs(task_id)) == 1
    elif words == "restart North":
        assert planned.desk.actions().count("APPROVAL_REQUESTED") == 1
        assert planned.desk.approvals.of_task(task_id) is not None
    else:
        found = planned.desk.ledger.read(lambda connection: outbox.message_place(connection, "notice", task_id))
        assert found is not None


@pytest.mark.parametrize("when", ["before", "after"])
def test_whenever_the_power_goes_a_refusal_is_written_down_once(
    planned: Planned, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    planned.desk.rights.take(ANNA, Right.OPERATOR)

    def reach(name: str) -> None:
        if name == f"schedules_t.waiting:{when}":
            raise PowerCut

    monkeypatch.setattr(crashpoints, "reach", reach)
    with pytest.raises(PowerCut):
        planned.chore.work(NOW + 5 * MINUTE)
    monkeypatch.undo()
    planned.anew().work(NOW + 6 * MINUTE)
    assert planned.desk.actions() == ["SCHEDULE_ADDED", "REFUSED"]
    assert len(planned.told()) == 1


def test_one_that_was_removed_at_this_very_moment_is_not_run(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    rights = planned.desk.rights

    def removed_meanwhile(who: Issuer, command: Command, right: Right) -> str:
        planned.schedules.remove("often", BOB, "task_removed", NOW)
        return rights(who, command, right)

    desk = planned.desk
    chore = SchedulesChore(desk.ledger, lambda: desk.config, desk.approvals, removed_meanwhile)
    assert not chore.work(NOW + 5 * MINUTE)
    assert desk.actions() == ["SCHEDULE_ADDED", "SCHEDULE_REMOVED"]


def test_two_programs_that_look_at_once_run_it_once(planned: Planned, tmp_path: Path) -> None:
    planned.add('schedule add often "*/5 * * * *" pause North')
    desk = planned.desk
    with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost") as other:

        def first(who: Issuer, command: Command, right: Right) -> str:
            planned.chore.work(NOW + 5 * MINUTE)  # the other one is quicker
            return ""

        slow = SchedulesChore(other, lambda: desk.config, desk.approvals, first)
        assert not slow.work(NOW + 5 * MINUTE)
    assert len(desk.jobs(planned.one().schedule.last_task_id)) == 1


def test_one_that_can_not_be_run_keeps_no_other_from_it(planned: Planned) -> None:
    planned.add('schedule add broken "hourly" status all')
    planned.add('schedule add well "hourly" pause North')
    desk = planned.desk

    def broken(schedule: Schedule, command: Command) -> ScheduledAnswer:
        raise ZeroDivisionError

    chore = SchedulesChore(desk.ledger, lambda: desk.config, desk.approvals, desk.rights, broken)
    assert chore.work(NOW + 30 * MINUTE)
    found = {each.schedule.name: each.schedule for each in planned.schedules.list()}
    assert found["broken"].waiting_since is not None
    assert found["well"].last_task_id


def test_conditions_are_checked_at_each_run(planned: Planned) -> None:
    desk, states = planned.desk, {"North": "running"}
    params = desk.gateway.parse('schedule add nightly "daily 03:00" pause where state=stale').params
    planned.schedules.add(params, "where:state=stale", ANNA, BERLIN, "task_of_nightly", PLACE, NOW)
    chore = SchedulesChore(
        *(desk.ledger, lambda: desk.config, desk.approvals, desk.rights),
        facts=lambda: {worker: {"state": state} for worker, state in states.items()},
    )
    chore.work(THREE)
    assert planned.last() == (RunState.REFUSED, "No worker matches state=stale.")
    states["North"] = "stale"
    chore.work(THREE + DAY)
    last = planned.last()
    assert last is not None
    assert last[0] is RunState.FILED
