"""Alerts in each format, from the decision to a local service that checks the published interface strictly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.alerts.outside.sender import AlertSender
from supervisor_core.alerts.outside.trial import try_receiver
from supervisor_core.common.service import Blocking
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.alerts.published_formats import Alertmanager, PagerDuty, Service, StandardWebhook
from tests.support.alerts.webhook_receiver import Receiver, a_receiver

SECRETS = {
    "json": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "pagerduty": "0123456789abcdef0123456789abcdef",
    "alertmanager": "hunter2",
}
PATHS = {"pagerduty": "/v2/enqueue"}
SERVICES: dict[str, type[Service]] = {
    "json": StandardWebhook,
    "pagerduty": PagerDuty,
    "alertmanager": Alertmanager,
}
ACKNOWLEDGING = ("json", "pagerduty")
LONG = "<!channel> *bold* & `code` ümlaut \U0001f4a5 \u202e\n" + "very long " * 3000
every_format = pytest.mark.parametrize("name", SERVICES)


class Elsewhere:
    """A host whose alerts go to one service, or to all of them."""

    def __init__(self, desk: AlertDesk, services: dict[str, Service], receivers: dict[str, Receiver]) -> None:
        self.desk, self.services, self.receivers = desk, services, receivers
        parts = DaemonContext(open_doors(desk.config), desk.ledger)
        self.senders = {each.label: AlertSender(parts, Blocking(), each) for each in desk.config.alerts.outside}

    def send(self) -> None:
        for each in self.senders.values():
            asyncio.run(each.round(asyncio.Event()))

    def states(self) -> list[tuple[str, str]]:
        """The receiver and the state of each document."""
        query = "SELECT subject, state FROM outbox_t WHERE kind = 'webhook' ORDER BY outbox_id"
        found = self.desk.ledger.read(lambda connection: connection.exec_driver_sql(query).all())
        return [(subject.partition("/")[0], state) for subject, state in found]


@contextmanager
def alerts_to(folder: Path, *names: str) -> Iterator[Elsewhere]:
    """The alerts of two workers go to services of these formats."""
    services = {name: SERVICES[name](SECRETS[name]) for name in names}
    with ExitStack() as stack:
        receivers = {name: stack.enter_context(a_receiver()) for name in names}
        for name in names:
            receivers[name].answer = services[name]
        settings = [
            {
                "name": name,
                "format": name,
                "url": f"{receivers[name].url}{PATHS.get(name, '')}",
                "secret": SECRETS[name],
            }
            for name in names
        ]
        with an_alert_desk(folder, "North", "South", alerts={"receivers": settings}, slack={"enabled": False}) as desk:
            desk.now = datetime.now(UTC) - timedelta(seconds=10)  # the service has the real clock
            desk.well("North", "South")
            yield Elsewhere(desk, services, receivers)


def alert_of(desk: AlertDesk) -> str:
    """The id of the one open alert."""
    (alert,) = desk.alerts.shown()
    return alert.alert_id


@every_format
def test_an_alert_opens_worsens_is_acknowledged_and_ends_there_under_one_key(tmp_path: Path, name: str) -> None:
    with alerts_to(tmp_path, name) as there:
        service, desk = there.services[name], there.desk
        desk.degraded("North")
        there.send()
        assert (service.complaints, len(service.open)) == ([], 1)
        desk.down("North")
        there.send()
        desk.alerts.acknowledge(alert_of(desk), desk.request(), desk.now)
        desk.work()
        desk.work()
        there.send()
        assert len(service.open) == 1
        assert len(service.acknowledged) == (1 if name in ACKNOWLEDGING else 0)
        assert service.acknowledged <= set(service.open)
        desk.well("North")
        there.send()
        assert (service.complaints, service.open) == ([], {})
        assert {state for _, state in there.states()} == {"sent"}
        assert any("degraded" in each for each in service.texts)
        assert any("down" in each for each in service.texts)


@every_format
def test_a_hostile_and_endless_reason_breaks_no_limit_and_no_markup(tmp_path: Path, name: str) -> None:
    with alerts_to(tmp_path, name) as there:
        there.desk.degraded("North", error=LONG)
        there.send()
        assert (there.services[name].complaints, len(there.services[name].texts)) == ([], 1)
        there.desk.well("North")
        there.send()
        assert there.services[name].complaints == []


@every_format
def test_two_alerts_are_two_there(tmp_path: Path, name: str) -> None:
    with alerts_to(tmp_path, name) as there:
        there.desk.degraded("North")
        there.desk.wait(2)
        there.desk.degraded("South")
        there.desk.wait(2)
        there.send()
        service = there.services[name]
        assert service.complaints == []
        assert len(service.texts) == 2
        assert len(service.open) == 2


def test_each_receiver_has_its_own_queue(tmp_path: Path) -> None:
    with alerts_to(tmp_path, *SERVICES) as there:
        there.receivers["pagerduty"].status = 503
        there.receivers["alertmanager"].status = 401
        there.desk.down("North")
        there.send()
        states = {"json": "sent", "pagerduty": "pending", "alertmanager": "dropped"}
        assert dict(there.states()) == states
        problems = {name: each.problem() for name, each in there.senders.items()}
        assert "are waiting: responded 503" in problems["pagerduty"]
        assert "was dropped: responded 401" in problems["alertmanager"]
        assert [name for name, words in problems.items() if words] == ["pagerduty", "alertmanager"]
        assert there.senders["pagerduty"].name == "receiver pagerduty"


@every_format
def test_a_test_alert_is_opened_and_closed_and_the_answer_shown(tmp_path: Path, name: str) -> None:
    with alerts_to(tmp_path, name) as there:
        config, service = there.desk.config, there.services[name]
        result = try_receiver(config, config.alerts.outside[0])
        assert (result.ok, service.complaints, service.open) == (True, [], {})
        assert service.texts[0].find("Test alert of TestHost. Nothing is wrong.") >= 0
        assert there.states() == []
        service.secret = "whsec_" + "A" * 32
        refused = try_receiver(config, config.alerts.outside[0])
        assert (refused.ok, len(service.complaints)) == (False, 1)
        assert service.complaints[0] in refused.answer.excerpt


def test_a_worker_that_gets_worse_is_one_alert_with_the_new_severity_at_alertmanager(tmp_path: Path) -> None:
    with alerts_to(tmp_path, "alertmanager") as there:
        there.desk.degraded("North")
        there.send()
        there.desk.down("North")
        there.send()
        (labels,) = (each["labels"] for each in there.services["alertmanager"].open.values())
        assert (labels["severity"], labels["target"], labels["host"]) == ("critical", "North", "TestHost")


def test_an_acknowledgement_names_the_person_once(tmp_path: Path) -> None:
    with alerts_to(tmp_path, "json") as there:
        desk = there.desk
        desk.down("North")
        desk.alerts.acknowledge(alert_of(desk), desk.request(), desk.now)
        for _ in range(3):
            desk.work()
            desk.wait(3600)
        there.send()
        told = [json.loads(each.body) for each in there.receivers["json"].posts()]
        events: list[Any] = [(each["event"], each["acknowledged_by"], each["state"]) for each in told]
        assert events == [("first", None, "open"), ("acknowledged", "ann", "acknowledged")]
        assert told[1]["words"] == "North on TestHost: acknowledged by ann."
