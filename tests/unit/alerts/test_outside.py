"""What is told beyond Slack, how it is signed, and what an answer means."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from sqlalchemy import Connection

from supervisor_core.alerts.outside.documents import delivery_id, document, outside_messages
from supervisor_core.alerts.outside.formats import body_of, headers_of, signature
from supervisor_core.alerts.outside.sender import PATIENCE
from supervisor_core.alerts.outside.transport import (
    LONGEST_ASKED_SECONDS,
    LONGEST_RETRY_SECONDS,
    SendVerdict,
    judge_answer,
    retry_seconds,
)
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.config.alert_settings import WebhookSettings
from supervisor_core.config.fields import SecretUrl
from supervisor_core.host.web import is_same_host
from supervisor_core.storage.steps import Message
from supervisor_core.workers.conditions.rules import Condition, Target

NOW = datetime(2026, 2, 5, 9, 0, tzinfo=UTC)
DOWN = Alert(
    "ab12cd34",
    Target("worker", "North"),
    Condition.DOWN,
    "its process is gone",
    NOW - timedelta(seconds=90),
    7,
    state=AlertState.OPEN,
    supervisor_id="Host",
)
OVER = replace(DOWN, state=AlertState.CLOSED, closed_at=NOW - timedelta(seconds=30), told=Condition.DOWN)


def test_a_document_says_what_happened_to_whom_since_when_and_the_same_in_words() -> None:
    assert document(DOWN, Reason.FIRST, NOW) == {
        "version": 1,
        "event": "first",
        "at": "2026-02-05T09:00:00.000000Z",
        "host": "Host",
        "alert": "ab12cd34",
        "parent": None,
        "target": {"type": "worker", "id": "North"},
        "condition": "down",
        "severity": "critical",
        "state": "open",
        "reason": "its process is gone",
        "since": "2026-02-05T08:58:30.000000Z",
        "until": None,
        "lasted_seconds": 90.0,
        "occurrences": 1,
        "acknowledged_by": None,
        "words": "North on Host: down. Its process is gone.",
    }


@pytest.mark.parametrize(
    ("alert", "reason", "words"),
    [
        (DOWN, Reason.WORSE, "North on Host: now worse: down. Its process is gone."),
        (DOWN, Reason.AGAIN, "North on Host: down again. Its process is gone."),
        (DOWN, Reason.REMINDER_DUE, "North on Host: still down after 1 min 30 s. Its process is gone."),
        (OVER, Reason.RESOLVED, "North on Host: recovered after 1 min (down)."),
        (
            replace(DOWN, target=Target("disk", "Host"), condition=Condition.DISK_LOW, reason=""),
            Reason.FIRST,
            "disk Host: disk low.",
        ),
        (
            replace(DOWN, target=Target("flapping", "North"), condition=Condition.FLAPPING, reason=""),
            Reason.FIRST,
            "North on Host: flapping.",
        ),
        (
            replace(DOWN, target=Target("storm", "ef56"), condition=Condition.STORM, reason="9 are down"),
            Reason.ESCALATED,
            "many workers on Host: still unhealthy after 1 min 30 s, not acknowledged. 9 are down.",
        ),
    ],
)
def test_a_document_has_a_line_for_receivers_that_show_nothing_but_text(
    alert: Alert, reason: Reason, words: str
) -> None:
    assert document(alert, reason, NOW)["words"] == words


def test_what_is_over_says_until_when_and_how_long_it_lasted() -> None:
    told = document(OVER, Reason.RESOLVED, NOW)
    assert (told["until"], told["lasted_seconds"]) == ("2026-02-05T08:59:30.000000Z", 60.0)


def messages(alert: Alert, reason: Reason, now: datetime = NOW) -> list[Message]:
    """The documents for one receiver; nothing was acknowledged, so no row is read."""
    return list(
        outside_messages(cast(Connection, None), alert, reason, [WebhookSettings(url=SecretUrl("http://h/"))], now)
    )


def test_everything_that_people_hear_has_a_document_and_nothing_else() -> None:
    told = {reason for reason in Reason if messages(OVER, reason)}
    assert told == {reason for reason in Reason if reason.tells}
    assert messages(replace(OVER, told=None), Reason.RESOLVED) == [], "nobody has heard of it"


def test_two_decisions_about_one_alert_are_two_documents() -> None:
    subjects = {
        messages(DOWN, reason, NOW + timedelta(seconds=after))[0].subject
        for reason in (Reason.FIRST, Reason.WORSE)
        for after in (0, 1)
    }
    assert len(subjects) == len({delivery_id("Host", each) for each in subjects}) == 4
    assert delivery_id("Host", "a") != delivery_id("Other", "a")


def test_a_signature_is_that_of_the_published_example() -> None:
    """The test vector of the libraries of Standard Webhooks."""
    signed = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_signature_is_over_the_id_the_moment_and_the_very_bytes() -> None:
    body = body_of({"words": "größer", "version": 1})
    assert body == b'{"version":1,"words":"gr\\u00f6\\u00dfer"}'
    digest = hmac.new(b"secret", b"d1.1770282000." + body, hashlib.sha256).digest()
    headers = headers_of(body, "d1", "secret", NOW)
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert (headers["webhook-timestamp"], headers["webhook-id"]) == ("1770282000", "d1")
    assert signature("secret", "d1", 1770282001, body) != signature("secret", "d1", 1770282000, body)
    assert json.loads(body)["words"] == "größer"


def test_without_a_secret_nothing_pretends_to_be_signed() -> None:
    assert "webhook-signature" not in headers_of(b"{}", "d1", "", NOW)


@pytest.mark.parametrize(
    ("status", "retry_after", "verdict", "seconds"),
    [
        (200, "", SendVerdict.TAKEN, None),
        (202, "", SendVerdict.TAKEN, None),
        (204, "9", SendVerdict.TAKEN, None),
        (301, "", SendVerdict.REFUSED, None),
        (400, "", SendVerdict.REFUSED, None),
        (401, "", SendVerdict.REFUSED, None),
        (404, "", SendVerdict.REFUSED, None),
        (410, "60", SendVerdict.REFUSED, None),
        (408, "", SendVerdict.AGAIN, None),
        (429, "7", SendVerdict.AGAIN, 7.0),
        (429, "Thu, 05 Feb 2026 09:01:00 GMT", SendVerdict.AGAIN, 60.0),
        (429, "Thu, 05 Feb 2026 08:00:00 GMT", SendVerdict.AGAIN, 0.0),
        (429, "99999999", SendVerdict.AGAIN, LONGEST_ASKED_SECONDS),
        (429, "soon", SendVerdict.AGAIN, None),
        (429, "-5", SendVerdict.AGAIN, None),
        (500, "", SendVerdict.AGAIN, None),
        (503, "30", SendVerdict.AGAIN, 30.0),
        (999, "", SendVerdict.AGAIN, None),
    ],
)
def test_an_answer_is_taken_tried_again_or_refused(
    status: int, retry_after: str, verdict: SendVerdict, seconds: float | None
) -> None:
    judged = judge_answer(status, retry_after, NOW)
    assert (judged.verdict, judged.seconds) == (verdict, seconds)
    assert str(status) in judged.words


def test_tries_grow_rarer_and_are_many_within_the_day() -> None:
    waits = [retry_seconds(tries) for tries in range(30)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1], retry_seconds(10**6)) == (1.0, LONGEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
    assert timedelta(seconds=LONGEST_RETRY_SECONDS) * 50 < PATIENCE


@pytest.mark.parametrize(
    ("url", "target", "same"),
    [
        ("https://a.example/x", "https://a.example/y", True),
        ("https://a.example/x", "https://a.example:443/x", True),
        ("http://a.example/x", "https://a.example/x", True),
        ("https://a.example/x", "http://a.example/x", False),
        ("https://a.example/x", "https://b.example/x", False),
        ("https://a.example/x", "https://a.example:8443/x", False),
        ("http://127.0.0.1:80/x", "file:///etc/passwd", False),
        ("https://a.example/x", "https://a.example@b.example/x", False),
    ],
)
def test_a_redirect_stays_with_whom_we_were_told_to_speak(url: str, target: str, *, same: bool) -> None:
    assert is_same_host(url, target) is same
