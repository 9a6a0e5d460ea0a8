"""From looks at workers to what people hear, with a real ledger and a clock that the story moves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.alerts.rules import AlertState
from supervisor_core.workers.conditions import Condition
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk

HOUR = 3600.0
SECOND = timedelta(seconds=1)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path) as made:
        made.well("North", "South")
        assert made.heard() == []
        yield made


def test_a_trouble_is_one_message_from_its_first_word_to_its_end(desk: AlertDesk) -> None:
    desk.wait(60)
    desk.down("North", ended=0.5)
    desk.down("North", ended=0.5)
    assert desk.heard() == ["post: North is down: exited (code 1) after 5 min"], "the same look twice is one word"
    desk.wait(90)
    desk.well("North")
    assert desk.heard() == ["edit: North recovered after 1 min 30 s"]
    old, new = desk.flips("North")[-2:]
    assert (old.new, old.seen_at - old.at) == (Condition.DOWN, 0.5 * SECOND)
    assert new.new is Condition.WELL
    alert = desk.one("North")
    assert (alert.state, alert.opened_flip, alert.closed_flip) == (AlertState.CLOSED, old.flip_id, new.flip_id)
    desk.wait(HOUR)
    assert desk.heard() == []


def test_it_becomes_worse_and_better_within_one_alert_and_only_the_worse_is_said_aloud(desk: AlertDesk) -> None:
    desk.degraded("North")
    assert desk.heard() == ["post: North is degraded: reports an error: no space left"]
    desk.wait(10)
    desk.down("North")
    edit, reply = desk.heard()
    assert edit.startswith("edit: North is down")
    assert reply.startswith("reply: :small_red_triangle: Escalated: North is down")
    desk.wait(10)
    desk.degraded("North")
    assert desk.heard() == ["edit: North is degraded: reports an error: no space left"]
    assert len(desk.of("North")) == 1


def test_who_is_brought_back_by_itself_is_a_line_that_counts_and_no_alarm(desk: AlertDesk) -> None:
    for _ in range(3):
        desk.down("North", decision=None, words="exited (code 1)")
        desk.wait(6)
        desk.well("North")
        desk.wait(1200)
    post, second, third = desk.heard()
    assert post.startswith("post: North restarted automatically: exited (code 1)")
    assert second.startswith("edit: North restarted automatically (2nd time today)")
    assert "3rd time today" in third
    assert [each.decided for each in desk.of("North")] == ["healed"] * 3


@pytest.mark.parametrize("words", ["exited (code 0)", ""])
def test_a_job_that_has_done_its_work_was_not_restarted_and_is_no_trouble(desk: AlertDesk, words: str) -> None:
    done = RestartDecision(Next.REST, RestartReason.ENDED_WELL, "exited (code 0) after 4 s; not restarted")
    for _ in range(7):  # its end is seen before its exit code is known, and decided after that
        desk.down("North", decision=None, words=words)
        desk.down("North", decision=done)
        desk.wait(60)
        desk.well("North")  # somebody starts it again
        desk.wait(60)
    assert desk.heard() == []
    desk.down("North", decision=None, words="exited (code 1)")
    desk.wait(6)
    desk.well("North")
    assert desk.heard() == ["post: North restarted automatically: exited (code 1)"]


def backoff(desk: AlertDesk, seconds: float, number: int) -> RestartDecision:
    words = f"exited (code 1) after 2 s; restarting in {seconds:g} s ({number} of 5 this hour)"
    return RestartDecision(Next.WAIT, RestartReason.BACKING_OFF, words, desk.now + seconds * SECOND, seconds)


def test_a_crash_loop_is_one_message_from_the_first_crash_after_a_short_run_to_the_quarantine(desk: AlertDesk) -> None:
    desk.full = True
    desk.down("North", decision=None)
    desk.wait(0.1)
    assert desk.heard() == [], "a worker that ran for long is restarted at once, which may be all"
    for number, seconds in enumerate((5, 10, 20, 40), start=2):
        desk.starts("North")
        desk.wait(1)
        desk.down("North", decision=None, lived=1)
        desk.down("North", decision=backoff(desk, seconds, number))
        told = desk.heard()
        assert [each.partition(":")[0] for each in told] == (["post"] if number == 2 else ["edit", "edit"])
        assert "*North is down*: exited (code 1) after 2 s" in told[-1]
        assert f"({number} of 5 this hour)" in desk.one("North").reason
        desk.wait(seconds)
        assert desk.heard() == []
    desk.starts("North")
    desk.wait(1)
    desk.look(desk.status("North", WorkerState.QUARANTINED, quarantine="quarantined after 5 restarts in an hour"))
    edit, reply = desk.heard()
    assert edit.startswith("edit: :red_circle: *North is quarantined* after 5 restarts in an hour")
    assert reply.startswith("reply: :small_red_triangle: Escalated")
    assert len(desk.of("North")) == 1
    assert [flip.new for flip in desk.flips("North")][-2:] == ["down", "restart_limit"]


def test_who_does_not_come_back_in_time_or_will_take_longer_is_told_of_at_once(desk: AlertDesk) -> None:
    desk.down("North", decision=None)
    assert desk.one("North").decided == "waiting_for_restart"
    desk.wait(9.9)
    assert desk.heard() == []
    desk.wait(0.1)
    assert desk.heard() == ["post: North is down: its process is gone"]
    desk.down("South", decision=None)
    later = RestartDecision(
        Next.WAIT,
        RestartReason.BACKING_OFF,
        "exited (code 1) after 2 s; restarting in 40 s",
        desk.now + 40 * SECOND,
        40.0,
    )
    desk.down("South", decision=later)
    desk.wait(1)
    assert desk.heard() == ["post: South is down: exited (code 1) after 2 s"]


def test_hysteresis_waits_before_it_opens_and_before_it_closes(tmp_path: Path) -> None:
    with an_alert_desk(
        tmp_path, alerts={"open_after_seconds": 20, "close_after_seconds": 30, "flapping": {"flips": 9}}
    ) as desk:
        desk.well("North")
        desk.down("North")
        desk.wait(10)
        desk.well("North")
        desk.wait(60)
        assert desk.heard() == [], "it passed by itself, and nobody brought it back"
        desk.down("North")
        desk.wait(20)
        (first,) = desk.heard()
        assert first.startswith("post: North is down")
        desk.well("North")
        desk.wait(29)
        assert all(each.startswith("edit: North is down") for each in desk.heard()), (
            "it seems to be over, and may not be"
        )
        desk.down("North")
        again = desk.heard()
        assert again[-1].startswith("reply: :repeat: Back again: North is down")
        desk.well("North")
        desk.wait(31)
        assert desk.heard()[-1].startswith("edit: North recovered after")
        assert desk.one("North").occurrences == 2


def test_reminders_come_more_and_more_seldom_and_end_when_somebody_looks_after_it(desk: AlertDesk) -> None:
    desk.down("North")
    desk.heard()
    begun, times = desk.now, []
    for _ in range(8 * 60):
        desk.wait(60)
        times += [
            round((desk.now - begun) / timedelta(hours=1), 2) for each in desk.heard() if each.startswith("reply")
        ]
    assert times == [1.0, 3.0, 7.0]
    desk.alerts.acknowledge(desk.one("North").alert_id, desk.request(), desk.now)
    desk.work()
    assert desk.heard() == ["edit: North is down: exited (code 1) after 5 min"]
    desk.wait(48 * HOUR)
    assert desk.heard() == []
    assert desk.trail() == [("ALERT_ACKNOWLEDGED", "North")]


def test_a_snooze_ends_by_itself_and_says_so_aloud(desk: AlertDesk) -> None:
    desk.down("North")
    asked = desk.request()
    desk.alerts.snooze(desk.one("North").alert_id, asked, now=desk.now)
    desk.alerts.snooze(desk.one("North").alert_id, asked, now=desk.now)
    desk.work()
    desk.heard()
    desk.wait(HOUR - 1)
    assert desk.heard() == []
    desk.wait(1)
    _, reply = desk.heard()
    assert reply.startswith("reply: :bell: Still open, and nobody has acknowledged it: North is down")
    assert desk.one("North").state is AlertState.OPEN
    assert desk.trail() == [("ALERT_SNOOZED", "North")], "the same request twice is one"


def test_a_mute_records_and_is_quiet_and_at_its_end_says_what_still_holds(desk: AlertDesk) -> None:
    made = desk.alerts.mute(["North", "South"], 1800, desk.request("moving disks"), desk.now)
    assert [each.until - desk.now for each in made] == [timedelta(minutes=30)] * 2
    desk.down("North", "South")
    desk.wait(60)
    desk.well("South")
    assert desk.heard() == []
    assert [desk.one(name).decided for name in ("North", "South")] == ["muted", "resolved"]
    desk.wait(1800)
    (told,) = desk.heard()
    assert told.startswith("post: North is down")
    assert [flip.new for flip in desk.flips("South")] == ["well", "down", "well"]
    assert desk.trail() == [("MUTED", "North"), ("MUTED", "South")]


def test_unmute_says_at_once_what_holds_and_a_new_mute_takes_the_place_of_the_old_one(desk: AlertDesk) -> None:
    desk.alerts.mute(["North"], 86400, desk.request(), desk.now)
    desk.wait(1)
    desk.alerts.mute(["North"], 600, desk.request(), desk.now)
    assert {name: each.until - desk.now for name, each in desk.alerts.muted(desk.now).items()} == {
        "North": timedelta(minutes=10)
    }
    desk.down("North")
    assert desk.heard() == []
    request = desk.request()
    for _ in ("dealt with", "dealt with again, after a crash"):
        assert desk.alerts.unmute(["North", "South"], request, desk.now) == ["North"]
    assert desk.alerts.unmute(["North", "South"], desk.request(), desk.now) == []
    desk.work()
    (told,) = desk.heard()
    assert told.startswith("post: North is down")
    assert desk.alerts.muted(desk.now) == {}


def test_paused_monitoring_is_quiet_and_its_end_says_what_holds(desk: AlertDesk) -> None:
    desk.resting = True
    desk.down("North")
    desk.wait(HOUR)
    assert desk.heard() == []
    assert desk.one("North").decided == "monitoring_paused"
    desk.resting = False
    desk.work()
    assert len(desk.heard()) == 1


def test_who_is_paused_or_removed_is_not_missed_and_its_alert_is_over(desk: AlertDesk) -> None:
    desk.down("North")
    desk.heard()
    desk.look(desk.status("North", WorkerState.STOPPED, inactive_reason="paused by ann"))
    assert desk.heard() == ["edit: North recovered after 0 s"]
    desk.wait(60)
    desk.down("South")
    desk.configure("North")
    desk.restart()
    desk.heard()
    desk.work()
    assert desk.heard() == ["edit: South recovered after 0 s"]


@pytest.mark.parametrize("known", [{"frozen_seconds": 60.0}, {"probe_failing": "http://localhost:8080 says 503"}])
def test_a_worker_without_a_heartbeat_recovers_when_that_is_seen(desk: AlertDesk, known: dict[str, Any]) -> None:
    silent: dict[str, Any] = {"heartbeat": None, "max_age_seconds": 0.0}
    desk.look(desk.status("North", **silent))
    desk.wait(60)
    desk.look(desk.status("North", **silent, **known))
    assert len(desk.heard()) == 1
    desk.wait(90)
    desk.look(desk.status("North", **silent))
    frozen = known.get("frozen_seconds", 0)
    assert desk.heard() == [f"edit: North recovered after {'2 min 30 s' if frozen else '1 min 30 s'}"]


def test_another_daemon_goes_on_where_the_last_one_ended(desk: AlertDesk) -> None:
    desk.down("North")
    desk.down("South", decision=None)
    assert len(desk.heard()) == 1
    desk.restart()
    desk.down("North")
    desk.wait(10)
    (told,) = desk.heard()
    assert told.startswith("post: South is down")
    desk.restart()
    desk.well("North", "South")
    assert len(desk.heard()) == 2
    assert {each.state for each in desk.all_alerts()} == {AlertState.CLOSED}
