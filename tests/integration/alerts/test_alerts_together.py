"""What quietens, folds and gathers alerts, met together: none of these makes another forget what it promised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Table, func, select

from supervisor_core.alerts.grouping.rules import STORM
from supervisor_core.alerts.outside.documents import WEBHOOK
from supervisor_core.alerts.rules import AlertState
from supervisor_core.daemon.services.retention import RETENTIONS, delete_rows
from supervisor_core.storage import outbox, tables
from supervisor_core.workers.conditions import Condition, Target
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk

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


def rows_of(desk: AlertDesk, table: Table) -> int:
    """How many rows a table has."""
    return desk.ledger.read(lambda connection: connection.execute(select(func.count()).select_from(table)).scalar_one())


def told_beyond(desk: AlertDesk, name: str) -> list[str]:
    """What a receiver hears of this target, in its order."""
    waiting = desk.ledger.read(lambda connection: outbox.pending_of_kind(connection, WEBHOOK, 1000))
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


def test_what_was_over_long_ago_is_let_go_of_and_how_everybody_is_stays_known(desk: AlertDesk) -> None:
    desk.down(*NAMES)
    desk.alerts.mute(["W1"], 60, desk.request(), desk.now)
    desk.wait(60)
    desk.well(*NAMES[:8])
    desk.wait(HOUR * 24 * 91)
    desk.restart()
    desk.work()
    for retention in RETENTIONS:
        delete_rows(desk.ledger, retention, desk.now, NAMES)
    assert rows_of(desk, tables.suppressions) == 0
    assert {each.target.id for each in desk.all_alerts()} == {"W9"}, "that one holds"
    assert rows_of(desk, tables.alerts) == 2, "and the digest that tells of it"
    assert rows_of(desk, tables.flips) == len(NAMES), "the newest of each"
    desk.well("W9")
    assert desk.alerts.shown() == []


def test_without_slack_a_storm_is_told_beyond_it_and_somebody_who_looks_after_a_member_is_kept(tmp_path: Path) -> None:
    settings = {"slack": {"enabled": False, "alert_channel": ""}, "alerts": {"webhook": {"url": "http://127.0.0.1:9/"}}}
    with an_alert_desk(tmp_path, *NAMES, **settings) as desk:
        desk.well(*NAMES)
        desk.down(*NAMES)
        (digest,) = [each for each in desk.alerts.shown() if each.target.kind == STORM]
        desk.alerts.acknowledge(desk.one("W1").alert_id, desk.request(), desk.now)
        desk.alerts.snooze(desk.one("W2").alert_id, desk.request(), now=desk.now)
        desk.work()
        assert desk.one("W1").state is AlertState.ACKNOWLEDGED
        assert told_beyond(desk, digest.target.id) == ["first"]
        desk.wait(HOUR)
        assert told_beyond(desk, digest.target.id) == ["first", "reminder_due"]
        desk.well(*NAMES)
        desk.wait(60)
        assert told_beyond(desk, digest.target.id) == ["first", "reminder_due", "resolved"]
        assert told_beyond(desk, "W1") == []  # nobody beyond Slack knew of it before it was part of the digest
        assert desk.heard() == []


def test_who_was_told_by_a_digest_alone_and_is_down_after_flapping_has_a_message_of_its_own(desk: AlertDesk) -> None:
    desk.down(*NAMES)
    for _ in range(3):
        desk.wait(40)
        desk.well("W1")
        desk.wait(40)
        desk.down("W1")
    desk.well(*NAMES[1:])
    assert any("Flapping: " in line and "W1" in line for line in desk.heard())
    desk.wait(HOUR)
    posts = [line for line in desk.heard() if line.startswith("post")]
    assert any("W1 is down" in line for line in posts), posts
