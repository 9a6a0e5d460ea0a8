"""Alerts by email: a real mail server on loopback, with certificates of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.alerts.outside.sender import AlertSender
from supervisor_core.alerts.outside.trial import try_receiver
from supervisor_core.common.service import Blocking
from supervisor_core.doctor.network import check_receivers
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.alerts.alert_service import AlertDesk, an_alert_desk
from tests.support.alerts.mail_server import MailServer, a_mail_server
from tests.support.processes.proxies import Authority

LOGIN = ("supervisor", "hunter2 secret")
ADDRESSES = {"from": "supervisor@example.com", "to": ["ops@example.com", "anna+night@example.com"]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(authority: Authority) -> Iterator[MailServer]:
    with a_mail_server(MailServer(authority.signed(), login=LOGIN)) as made:
        yield made


@contextmanager
def mailing(folder: Path, server: MailServer, *, trusts: Authority | None, **more: Any) -> Iterator[AlertDesk]:
    """A host that sends its alerts to this server."""
    folder.mkdir(exist_ok=True)
    login = {"user": LOGIN[0], "secret": LOGIN[1]}
    receiver = {"name": "mail", "format": "email", "url": server.url, **login, **ADDRESSES, **more}
    alerts = {"receivers": [receiver]}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("SSL_CERT_FILE", str(trusts.file) if trusts else "")
        desk = stack.enter_context(an_alert_desk(folder, "North", alerts=alerts, slack={"enabled": False}))
        desk.now = datetime.now(UTC) - timedelta(seconds=10)
        desk.well("North")
        yield desk


def sender_of(desk: AlertDesk) -> AlertSender:
    return AlertSender(DaemonContext(open_doors(desk.config), desk.ledger), Blocking(), desk.config.alerts.outside[0])


def send(desk: AlertDesk) -> str:
    """What may be sent now; the problem that is left."""
    sender = sender_of(desk)
    asyncio.run(sender.round(asyncio.Event()))
    return sender.problem()


def test_an_alert_is_a_conversation_that_ends_with_its_recovery(
    tmp_path: Path, server: MailServer, authority: Authority
) -> None:
    with mailing(tmp_path, server, trusts=authority) as desk:
        desk.down("North")
        assert send(desk) == ""
        desk.well("North")
        assert send(desk) == ""
    first, last = server.messages
    assert first["Subject"].startswith("[critical] North on TestHost: down.")
    assert last["Subject"].startswith("[recovered] North on TestHost: recovered after")
    assert first["To"] == last["To"] == "ops@example.com, anna+night@example.com"
    assert first["References"] == last["In-Reply-To"] == last["References"]
    assert first["Message-ID"] != last["Message-ID"]
    assert first["In-Reply-To"] is None
    assert "Condition: down" in first.get_content()
    assert server.envelopes == [("supervisor@example.com", ["ops@example.com", "anna+night@example.com"])] * 2
    assert server.commands[:4] == ["EHLO", "STARTTLS", "EHLO", "AUTH"]


def test_a_reason_can_add_no_header_and_no_recipient(tmp_path: Path, server: MailServer, authority: Authority) -> None:
    with mailing(tmp_path, server, trusts=authority) as desk:
        desk.degraded("North", error="full\r\nBcc: evil@example.com\r\n.\r\n\udcff ümlaut " + "long " * 5000)
        assert send(desk) == ""
    (message,) = server.messages
    assert message["Bcc"] is None
    assert "ümlaut" in message.get_content()
    assert len(message["Subject"]) < 250
    assert server.envelopes[0][1] == ["ops@example.com", "anna+night@example.com"]


def test_tls_from_the_first_byte_is_another_scheme(tmp_path: Path, authority: Authority) -> None:
    with a_mail_server(MailServer(authority.signed(), implicit=True)) as server:
        with mailing(tmp_path, server, trusts=authority, user="", secret="") as desk:
            desk.down("North")
            assert send(desk) == ""
        assert len(server.messages) == 1
        assert "STARTTLS" not in server.commands


def test_a_server_that_offers_no_encryption_or_an_untrusted_certificate_hears_no_password(
    tmp_path: Path, server: MailServer, authority: Authority
) -> None:
    with mailing(tmp_path, server, trusts=None) as desk:
        desk.down("North")
        assert "certificate rejected: unable to get local issuer certificate" in send(desk)
    server.starttls = False
    with mailing(tmp_path / "second", server, trusts=authority) as desk:
        desk.down("North")
        assert "the server offers no encryption (STARTTLS)" in send(desk)
    assert not {"AUTH", "MAIL"} & set(server.commands)


REPLIES = {
    ("RCPT", "550 5.1.1 no hunter2 here"): ("dropped", "responded 550 to the recipients"),
    ("RCPT", "450 4.2.1 later"): ("pending", "responded 450 to the recipients"),
    ("DATA", "451 4.3.0 later"): ("pending", "responded 451 to the message"),
    ("MAIL", "553 5.1.8 who is hunter2"): ("dropped", "responded 553 to the sender"),
    ("AUTH", "535 5.7.8 not hunter2"): ("dropped", "responded 535 to the login"),
    ("AUTH", "454 4.7.0 later"): ("pending", "responded 454 to the login"),
    ("EHLO", "421 4.3.2 going down"): ("pending", ""),
}


@pytest.mark.parametrize("reply", REPLIES, ids=str)
def test_a_temporary_error_is_tried_again_and_a_permanent_one_is_not(
    tmp_path: Path,
    server: MailServer,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    reply: tuple[str, str],
) -> None:
    state, words = REPLIES[reply]
    server.replies = dict([reply])
    with mailing(tmp_path, server, trusts=authority) as desk:
        desk.down("North")
        problem = send(desk)
        query = "SELECT state FROM outbox_t WHERE kind = 'webhook'"
        assert desk.ledger.read(lambda connection: connection.exec_driver_sql(query).scalar()) == state
    assert words in problem
    assert "hunter2" not in problem + caplog.text


def test_the_doctor_logs_in_and_sends_nothing_and_a_test_sends(
    tmp_path: Path, server: MailServer, authority: Authority
) -> None:
    with mailing(tmp_path, server, trusts=authority) as desk:
        off, check = check_receivers(desk.config)
        assert off.message == "off: alerts.webhook.url isn't set"
        assert (check.name, check.ok) == ("receiver_mail", True)
        assert check.message == f"smtp://localhost:{server.port}/… is reachable; no email was sent"
        assert server.messages == []
        result = try_receiver(desk.config, desk.config.alerts.outside[0])
        assert (result.ok, result.answer.words) == (True, "responded 250 to the message")
        assert [each["Subject"] for each in server.messages] == [
            "[warning] Test alert of TestHost. Nothing is wrong.",
            "[recovered] The test alert of TestHost is closed.",
        ]
    server.login = ("supervisor", "another")
    with mailing(tmp_path / "second", server, trusts=authority) as desk:
        _, check = check_receivers(desk.config)
        assert (check.ok, "hunter2" in check.message) == (False, False)
        assert "responded 535 to the login" in check.message
