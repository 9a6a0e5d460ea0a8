"""Unresponsive hosts of a fleet: one alert for each, with its workers' alerts in it; and one for many hosts at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.outbound.content import alert_details
from bot.views.cards.alert import alert_card
from supervisor_core.workers.conditions import (
    DRIVE,
    SUPERVISOR,
    WORKER,
    Condition,
    Reading,
    Target,
    TargetReading,
)
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk

NO_MESSAGE = "no message since 05:06:10 UTC; its workers may still run"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    with an_alert_desk(tmp_path, "W1") as made:
        made.well("W1")
        observe(made, WORKER, "web-1/a", "web-1/b", "web-2/a")
        yield made


def observe(desk: AlertDesk, kind: str, *names: str, condition: Condition = Condition.WELL, reason: str = "") -> None:
    reading = Reading(condition, reason or str(condition), desk.now)
    desk.alerting.observe_all([TargetReading(Target(kind, name), reading) for name in names])
    desk.work()


def hosts_are(desk: AlertDesk, *names: str, silent: bool) -> None:
    condition = Condition.SUPERVISOR_SILENT if silent else Condition.WELL
    observe(desk, SUPERVISOR, *names, condition=condition, reason=NO_MESSAGE if silent else "")


def card_of(desk: AlertDesk, alert_id: str) -> dict[str, Any]:
    details = desk.ledger.read(lambda connection: alert_details(connection, alert_id, desk.now))
    assert details is not None
    return alert_card(details, desk.now)


def worker_is_down(desk: AlertDesk, *names: str) -> None:
    observe(desk, WORKER, *names, condition=Condition.DOWN, reason="crashed (SIGKILL)")


def test_the_open_alerts_of_its_workers_are_part_of_an_unresponsive_host_and_stand_alone_after_it(
    desk: AlertDesk,
) -> None:
    worker_is_down(desk, "web-1/a")
    desk.wait(600)
    worker_is_down(desk, "web-2/a")
    desk.wait(60)
    desk.heard()
    hosts_are(desk, "web-1", silent=True)
    heard = desk.heard()
    posted = [line for line in heard if line.startswith("post")]
    assert posted == ["post: web-1 is unresponsive: no message since 05:06:10 UTC"]
    host = desk.one("web-1/a").parent_id
    assert host is not None
    card = str(card_of(desk, host))
    assert "Its workers may still run." in card
    assert "1 worker depends on it" in card
    assert "Part of the supervisor's alert" in str(desk.shown("web-1/a"))
    assert desk.one("web-2/a").parent_id is None, "another host's"
    hosts_are(desk, "web-1", silent=False)
    desk.wait(31)
    assert desk.one("web-1/a").parent_id is None
    assert not [line for line in desk.heard() if line.startswith("post")], "it was posted before"


def test_a_host_s_drive_explains_only_its_own_workers(desk: AlertDesk) -> None:
    observe(desk, DRIVE, "web-1", condition=Condition.DRIVE_UNREACHABLE, reason="the drive hangs")
    observe(desk, WORKER, "web-1/a", "web-2/a", "W1", condition=Condition.STALE, reason="last heartbeat 60 s ago")
    assert desk.one("web-1/a").parent_id is not None
    assert {desk.one(name).parent_id for name in ("web-2/a", "W1")} == {None}


def test_five_hundred_hosts_that_vanish_at_once_are_one_message_which_closes_with_the_last(desk: AlertDesk) -> None:
    names = [f"web-{number}" for number in range(1, 501)]
    hosts_are(desk, *names, silent=True)
    heard = [line for line in desk.heard() if line.startswith("post")]
    assert heard == ["post: 500 hosts have problems: 500 unresponsive"]
    desk.wait(60)
    hosts_are(desk, *names[:400], silent=False)
    assert desk.heard()[-1] == "edit: 100 hosts have problems: 100 unresponsive · 400 recovered"
    hosts_are(desk, *names[400:], silent=False)
    desk.wait(timedelta(minutes=2).total_seconds())
    (line,) = [line for line in desk.heard() if "recovered after" in line][-1:]
    assert line.startswith("edit: All hosts recovered after")
    assert desk.alerts.shown() == []


def test_workers_and_hosts_have_digests_of_their_own(desk: AlertDesk) -> None:
    hosts_are(desk, *(f"db-{number}" for number in range(9)), silent=True)
    worker_is_down(desk, "W1")
    assert desk.one("W1").parent_id is None
