"""Alerts through Apprise, by its own scheme `json://` to a server of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.alerts.outside import transport
from supervisor_core.alerts.outside.sender import AlertSender
from supervisor_core.common.service import Blocking
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.alerts.webhook_receiver import Receiver, a_receiver
from tests.support.homes import a_home


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with a_receiver() as made:
        yield made


def notify_url(receiver: Receiver) -> str:
    return f"{receiver.url.replace('http', 'json')}/hunter2?+X-Token=hunter2"


@pytest.fixture
def desk(tmp_path: Path, receiver: Receiver) -> Iterator[AlertDesk]:
    alerts = {"notify": [notify_url(receiver)]}
    with an_alert_desk(tmp_path, "North", alerts=alerts, slack={"enabled": False}) as made:
        made.now = datetime.now(UTC) - timedelta(seconds=10)  # the sender has the real clock
        made.well("North")
        yield made


def send(desk: AlertDesk) -> str:
    """Send what is due; the problem that is left."""
    (receiver,) = desk.config.alerts.outside
    sender = AlertSender(DaemonContext(open_doors(desk.config), desk.ledger), Blocking(), receiver)
    asyncio.run(sender.round(asyncio.Event()))
    return sender.problem()


def states(desk: AlertDesk) -> list[str]:
    query = "SELECT state FROM outbox_t WHERE kind = 'webhook' ORDER BY outbox_id"
    return [row.state for row in desk.ledger.read(lambda connection: connection.exec_driver_sql(query).all())]


def test_an_alert_is_sent_when_it_opens_and_when_it_closes(desk: AlertDesk, receiver: Receiver) -> None:
    desk.down("North")
    assert send(desk) == ""
    desk.well("North")
    assert send(desk) == ""
    opened, closed = (post.document for post in receiver.posts())
    assert (opened["title"], opened["type"]) == ("[critical] North on TestHost", "failure")
    assert opened["message"].startswith("North on TestHost: down.")
    assert (closed["title"], closed["type"]) == ("[recovered] North on TestHost", "success")
    assert closed["message"].startswith("North on TestHost: recovered after")
    assert states(desk) == ["sent", "sent"]


def test_a_failure_is_retried_a_refusal_dropped_and_no_part_of_the_url_is_shown(
    desk: AlertDesk, receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    receiver.status = 503
    desk.down("North")
    assert send(desk) == "alerts to json://… are waiting: responded 503 Service Unavailable"
    assert states(desk) == ["pending"]
    receiver.status = 401
    desk.ledger.write(lambda connection: connection.exec_driver_sql("UPDATE outbox_t SET due_at = created_at"))
    assert "an alert to json://… was dropped: responded 401 Unauthorized" in send(desk)
    assert states(desk) == ["dropped"]
    assert "hunter2" not in caplog.text + "".join(capfd.readouterr()) + repr(desk.config.alerts)
    assert "127.0.0.1" not in caplog.text
    assert notify_url(receiver) in desk.config.secrets


def test_a_service_that_hangs_is_left_at_the_deadline(
    desk: AlertDesk, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LONGEST_SECONDS", 0.5)
    receiver.hangs.set()
    desk.down("North")
    assert "no complete response within" in send(desk)
    assert states(desk) == ["pending"]


def test_a_hostile_reason_is_short_and_mentions_nobody(desk: AlertDesk, receiver: Receiver) -> None:
    desk.degraded("North", error="@everyone <!channel> <@U1>\n" + "very long " * 3000)
    assert send(desk) == ""
    (post,) = receiver.posts()
    assert len(post.document["message"]) < 1000
    assert not {"@everyone", "<!", "<@"} & {post.document["message"][at : at + 9] for at in range(900)}
    assert "@everyone" not in post.document["message"]
    assert "<!channel" not in post.document["message"]


def test_the_shell_tests_a_url_and_names_one_that_cannot_be_used(tmp_path: Path, receiver: Receiver) -> None:
    with a_home(tmp_path / "home", {}, slack={"enabled": False}, alerts={"notify": [notify_url(receiver)]}) as home:
        (tested,) = home.json("alerts", "test")
        assert (tested["receiver"], tested["url"], tested["ok"]) == ("notify:json", "json://…", True)
        assert [post.document["type"] for post in receiver.posts()] == ["warning", "success"]
        assert home.supervisor("config", "check").returncode == 0
    urls = [notify_url(receiver), "nonsense://hunter2"]
    with a_home(tmp_path / "other", {}, slack={"enabled": False}, alerts={"notify": urls}) as home:
        for command in (("config", "check"), ("daemon", "start"), ("run",)):
            refused = home.supervisor(*command)
            assert refused.returncode == 2
            assert "alerts.notify[1] isn't a URL that Apprise can use" in refused.stderr
            assert "hunter2" not in refused.stdout + refused.stderr
