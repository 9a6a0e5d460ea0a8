"""Alerts of Alertmanager as messages: one each, updated in place, with the buttons for the worker that it names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.outbound.content import alert_details
from bot.views.blocks import blocks_of
from bot.views.cards.alert import alert_card
from supervisor_core.alerts import incoming as rows
from supervisor_core.alerts.incoming import IncomingAlerts, TooManyAlerts
from supervisor_core.alerts.rules import Alert
from supervisor_core.common.service import Blocking
from supervisor_core.common.times import to_text
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.storage.ledger_rows import alerts_of

RATE = "HighErrorRate"
KNOWN = ("North", "South", "web-1/fetcher")


class Source:
    """Alertmanager, as far as it sends; each request is taken before the next."""

    def __init__(self, desk: AlertDesk) -> None:
        self.desk = desk
        self.service = self.restart()

    def restart(self) -> IncomingAlerts:
        """Another daemon."""
        desk = self.desk
        settings = desk.config.alerts.incoming
        told = desk.alerting.observe_all
        self.service = IncomingAlerts(
            desk.ledger, Blocking(), settings, lambda seen: told(list(seen)), KNOWN.__contains__, lambda: desk.now
        )
        return self.service

    def send(self, *alerts: dict[str, Any]) -> int:
        body = json.dumps({"version": "4", "alerts": alerts}).encode()
        count = asyncio.run(self.service.take(body))
        self.desk.work()
        return count

    def alert(self, name: str = RATE, fingerprint: str = "a1", worker: str = "North", **more: Any) -> dict[str, Any]:
        """A firing alert that began a minute ago."""
        labels = {"alertname": name, "severity": "critical", "worker": worker, "n": fingerprint}
        begun = to_text(self.desk.now - timedelta(minutes=1))
        summary = {"summary": "5xx above 5 %"}
        return {
            "status": "firing",
            "labels": labels,
            "annotations": summary,
            "startsAt": begun,
            "fingerprint": fingerprint,
            **more,
        }

    def resolved(self, **more: Any) -> dict[str, Any]:
        return {**self.alert(**more), "status": "resolved", "endsAt": to_text(self.desk.now)}

    def one(self) -> Alert:
        """The one open alert."""
        (alert,) = self.desk.alerts.shown()
        return alert

    def card(self, alert_id: str = "") -> dict[str, Any]:
        """The message as it would be now."""
        found = alert_id or self.one().alert_id
        told = self.desk.ledger.read(lambda connection: alert_details(connection, found, self.desk.now))
        assert told is not None
        return alert_card(told, self.desk.now)

    def buttons(self) -> list[str]:
        blocks = blocks_of(self.card())
        return [
            each["text"]["text"]
            for block in blocks
            for each in block.get("elements", ())
            if "text" in each
            if each["type"] == "button"
        ]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[AlertDesk]:
    alerts = {"incoming": {"token": "0123456789abcdef", "forget_hours": 24}}
    with an_alert_desk(tmp_path, alerts=alerts) as made:
        made.well("North", "South")
        yield made


@pytest.fixture
def source(desk: AlertDesk) -> Source:
    return Source(desk)


def test_an_alert_is_one_message_from_its_first_word_to_its_end(desk: AlertDesk, source: Source) -> None:
    assert source.send(source.alert()) == 1
    assert desk.heard() == ["post: HighErrorRate is firing: 5xx above 5 %"]
    assert source.buttons() == ["Acknowledge", "Restart", "Why?"]
    source.send({**source.alert(), "annotations": {"summary": "5xx above 9 %"}})
    source.send(source.alert(annotations={"summary": "nobody can log in"}))
    assert desk.heard()[-1] == "edit: HighErrorRate is firing: nobody can log in"
    desk.alerts.acknowledge(source.one().alert_id, desk.request(), desk.now)
    desk.work()
    assert source.buttons() == ["Restart", "Why?"]
    desk.wait(60)
    source.send(source.resolved())
    assert desk.heard()[-1] == "edit: HighErrorRate recovered after 2 min"
    assert desk.alerts.shown() == []


def test_a_repeated_alert_says_nothing_new_and_one_that_returns_is_another(desk: AlertDesk, source: Source) -> None:
    first = source.alert()
    for _ in range(3):
        source.send(first)
        desk.wait(300)
    source.send(source.resolved())
    desk.wait(3600)
    source.send(source.alert())
    posts = [each for each in desk.heard() if each.startswith("post")]
    assert posts == ["post: HighErrorRate is firing: 5xx above 5 %"] * 2


@pytest.mark.parametrize(
    ("worker", "buttons"),
    [
        ("North", ["Acknowledge", "Restart", "Why?"]),
        ("web-1/fetcher", ["Acknowledge", "Restart", "Why?"]),
        ("Nobody", ["Acknowledge"]),
        ("all", ["Acknowledge"]),
        ("", ["Acknowledge"]),
    ],
)
def test_only_a_known_worker_has_buttons(source: Source, worker: str, buttons: list[str]) -> None:
    source.send(source.alert(worker=worker))
    assert source.buttons() == buttons


def test_text_from_elsewhere_is_never_markup(desk: AlertDesk, source: Source) -> None:
    desk.full = True
    hostile = "<!channel> *bold* <http://evil.example|here> `code` & \u202e"
    source.send(source.alert(name=hostile, annotations={"summary": hostile}))
    shown = json.dumps(source.card(), ensure_ascii=False)
    assert "<!channel>" not in shown
    assert "<http://evil" not in shown
    assert "\u202e" not in shown
    assert "&lt;!channel&gt;" in shown


def test_a_daemon_that_was_killed_before_it_told_tells_at_its_next_start(desk: AlertDesk, source: Source) -> None:
    source.service._publish = lambda _: None  # noqa: SLF001 (killed right after the row was written)
    source.send(source.alert())
    assert desk.heard() == []
    desk.restart()
    asyncio.run(source.restart().tell_all())
    desk.work()
    assert desk.heard() == ["post: HighErrorRate is firing: 5xx above 5 %"]
    source.service._publish = lambda _: None  # noqa: SLF001
    source.send(source.resolved())
    desk.restart()
    asyncio.run(source.restart().tell_all())
    desk.work()
    assert desk.alerts.shown() == []
    asyncio.run(source.restart().tell_all())
    desk.work()
    assert len(desk.ledger.read(lambda connection: alerts_of(connection, _target("a1")))) == 1


def _target(fingerprint: str) -> Any:
    from supervisor_core.workers.conditions import ALERTMANAGER, Target

    return Target(ALERTMANAGER, fingerprint)


def test_an_alert_that_is_not_repeated_ends_after_a_while(desk: AlertDesk, source: Source) -> None:
    source.send(source.alert())
    desk.wait(23 * 3600)
    source.send(source.alert())
    desk.wait(23 * 3600)
    asyncio.run(source.service.forget())
    desk.work()
    assert len(desk.alerts.shown()) == 1
    desk.wait(2 * 3600)
    asyncio.run(source.service.forget())
    desk.work()
    assert desk.alerts.shown() == []


def test_more_than_there_is_room_for_are_refused_as_a_whole(
    desk: AlertDesk, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_FIRING", 3)
    source.send(*(source.alert(fingerprint=f"a{n}") for n in range(3)))
    with pytest.raises(TooManyAlerts):
        source.send(source.alert(fingerprint="a1"), source.alert(fingerprint="a9"))
    source.send(source.alert(fingerprint="a1"))
    source.send(source.resolved(fingerprint="a2"))
    source.send(source.alert(fingerprint="a9"))
    query = "SELECT fingerprint FROM foreign_alerts_t WHERE firing = 1 ORDER BY fingerprint"
    assert desk.ledger.read(lambda c: list(c.exec_driver_sql(query).scalars())) == ["a0", "a1", "a9"]


def test_mutes_and_quiet_hours_hold_for_them_too(tmp_path: Path) -> None:
    quiet = [{"days": "mon-sun", "from": "08:00", "to": "12:00", "zone": "UTC"}]
    alerts = {"incoming": {"token": "0123456789abcdef"}, "quiet_hours": quiet}
    with an_alert_desk(tmp_path, alerts=alerts) as desk:
        source = Source(desk)
        source.send(source.alert(labels={"alertname": RATE, "severity": "warning"}))
        assert desk.heard() == []
        source.send(source.alert(fingerprint="a2", name="Outage"))
        assert desk.heard() == ["post: Outage is firing: 5xx above 5 %"]


def test_none_is_sent_to_a_receiver_outside(tmp_path: Path) -> None:
    alerts = {"incoming": {"token": "0123456789abcdef"}, "webhook": {"url": "http://127.0.0.1:9/"}}
    with an_alert_desk(tmp_path, alerts=alerts) as desk:
        source = Source(desk)
        source.send(source.alert())
        query = "SELECT count(*) FROM outbox_t WHERE kind = 'webhook'"
        assert desk.ledger.read(lambda connection: connection.exec_driver_sql(query).scalar()) == 0
