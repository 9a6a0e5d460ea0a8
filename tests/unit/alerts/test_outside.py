"""What is told beyond Slack, how it is signed, and what an answer means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from supervisor_core.alerts.outside.documents import document
from supervisor_core.alerts.outside.formats import headers_of, signature
from supervisor_core.alerts.outside.transport import (
    LONGEST_ASKED_SECONDS,
    SendVerdict,
    judge_answer,
)
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.host.web import is_same_host
from supervisor_core.workers.conditions import Condition, Target

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


def test_a_signature_is_that_of_the_published_example() -> None:
    """The test vector of the libraries of Standard Webhooks."""
    signed = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


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
