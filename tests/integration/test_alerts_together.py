"""What quietens, folds and gathers alerts, met together: none of these makes another forget what it promised."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from supervisor_core.domain.alerts import AlertState
from supervisor_core.domain.conditions import Condition, Target
from supervisor_core.domain.storms import STORM
from supervisor_core.ledger import outbox
from supervisor_core.ledger.webhooks import WEBHOOK
from tests.support.alerting import AlertDesk, an_alert_desk

NAMES = [f"W{number}" for number in range(1, 10)]
HOUR = 3600.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, *NAMES, alerts={"webhook": {"url": "http://127.0.0.1:9/"}}) as made:
        made.well(*NAMES)
        yield made


def drive_is(desk: AlertDesk, *, away: bool) -> None:
    """The drive was looked at."""
    words = "the drive at /mnt/nas hangs" if away else "the drive answers"
    desk.observe(Target("drive", "TestHost"), Condition.DRIVE_UNREACHABLE if away else Condition.WELL, words)


def told_beyond(desk: AlertDesk, name: str) -> list[str]:
    """What a receiver hears of this target, in its order."""
    waiting = desk.ledger.read(lambda connection: outbox.waiting_of(connection, WEBHOOK, 1000))
    return [str(each.payload["event"]) for each in waiting if each.payload["target"]["id"] == name]


def test_who_was_told_before_the_drive_went_is_told_to_be_over_by_every_way(desk: AlertDesk) -> None:
    desk.stale("W1")
    desk.wait(10)
    drive_is(desk, away=True)
    desk.wait(60)
    drive_is(desk, away=False)
    desk.well("W1")
    assert (desk.one("W1").state, desk.one("W1").decided) == (AlertState.CLOSED, "resolved")
    assert told_beyond(desk, "W1") == ["first", "resolved"]


def test_who_is_looked_after_stays_so_when_the_drive_comes_back(desk: AlertDesk) -> None:
    desk.stale("W1")
    desk.alerts.acknowledge(desk.one("W1").alert_id, desk.request(), desk.now)
    desk.work()
    drive_is(desk, away=True)
    desk.wait(60)
    drive_is(desk, away=False)
    desk.heard()
    desk.wait(HOUR * 5)
    assert desk.one("W1").state is AlertState.ACKNOWLEDGED
    assert [line for line in desk.heard() if "W1" in line] == []


def test_who_was_told_before_has_a_while_to_be_heard_again_when_the_drive_is_back(desk: AlertDesk) -> None:
    desk.stale("W1")
    drive_is(desk, away=True)
    desk.wait(60)
    desk.heard()
    drive_is(desk, away=False)
    desk.wait(10)
    desk.stale("W1", ago=380)
    assert [line for line in desk.heard() if line.startswith("reply")] == []
    desk.wait(25)
    (said,) = [line for line in desk.heard() if line.startswith("reply")]
    assert "W1" in said


def test_who_is_muted_in_a_storm_is_not_called_for_by_its_digest(desk: AlertDesk) -> None:
    desk.down(*NAMES)
    desk.alerts.mute(NAMES, 3 * int(HOUR), desk.request(), desk.now)
    desk.work()
    desk.heard()
    desk.wait(2 * HOUR)
    assert [line for line in desk.heard() if line.startswith("reply")] == []
    desk.wait(HOUR + 60)
    assert len([line for line in desk.heard() if line.startswith("reply")]) == 1, "it ends out loud"


def test_workers_that_flap_together_are_one_message(desk: AlertDesk) -> None:
    for _ in range(3):
        desk.degraded(*NAMES)
        desk.wait(40)
        desk.well(*NAMES)
        desk.wait(40)
    posts = [line for line in desk.heard() if line.startswith("post")]
    assert len(posts) <= 4, posts
    desk.wait(2 * HOUR)
    assert desk.alerts.shown() == []


def test_a_storm_of_warnings_that_becomes_critical_is_said_aloud(desk: AlertDesk) -> None:
    desk.degraded(*NAMES)
    desk.wait(60)
    desk.heard()
    desk.down(*NAMES)
    assert [line.split(":")[0] for line in desk.heard()] == ["edit", "reply"]


def test_a_clock_that_is_set_back_keeps_no_first_word_back(desk: AlertDesk) -> None:
    desk.down("W1", "W2")
    assert desk.one("W2").decided == "gathered"
    desk.heard()
    desk.now -= timedelta(hours=1)
    desk.work()
    desk.down("W3")
    desk.wait(2)
    assert sorted(line.split(":")[1] for line in desk.heard()) == [" W2 is down", " W3 is down"]


def test_paused_monitoring_is_about_a_storm_too(desk: AlertDesk) -> None:
    desk.down(*NAMES[:6])
    desk.resting = True
    desk.work()
    desk.heard()
    desk.down(*NAMES)
    desk.wait(3 * HOUR)
    assert [line for line in desk.heard() if not line.startswith("edit")] == []
    desk.restart()
    desk.resting = False
    desk.down(*NAMES)
    heard = desk.heard()
    assert any(line.startswith("reply") for line in heard), heard
    desk.well(*NAMES)
    desk.wait(60)
    assert [each for each in desk.alerts.shown() if each.target.kind == STORM] == []
