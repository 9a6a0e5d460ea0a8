"""What Alertmanager's webhook sends: read as published, bounded, and never trusted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor_core.alerts.incoming import (
    MOST_ALERTS,
    NAME,
    SUMMARY,
    ForeignAlert,
    PayloadError,
    parse_payload,
)
from supervisor_core.workers.conditions import Severity

NOW = datetime(2026, 2, 5, 9, 0, tzinfo=UTC)
ALERT: dict[str, Any] = {
    "status": "firing",
    "labels": {"alertname": "HighErrorRate", "severity": "warning", "worker": "North", "instance": "web-1:80"},
    "annotations": {"summary": "5xx above 5 %", "description": "Look at the graph"},
    "startsAt": "2026-02-05T08:59:00.123456789Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus:9090/graph",
    "fingerprint": "0a1b2c3d4e5f6789",
}


def parsed(*alerts: Any, label: str = "worker") -> list[ForeignAlert]:
    document = {"version": "4", "groupKey": "{}", "status": "firing", "receiver": "supervisor", "alerts": list(alerts)}
    return parse_payload(json.dumps(document).encode(), label, NOW)


def test_a_firing_alert_has_its_name_summary_severity_worker_and_beginning() -> None:
    begun = datetime(2026, 2, 5, 8, 59, 0, 123456, tzinfo=UTC)
    assert parsed(ALERT) == [
        ForeignAlert(
            "0a1b2c3d4e5f6789", "HighErrorRate", "5xx above 5 %", Severity.WARNING, "North", firing=True, begun_at=begun
        )
    ]


def test_a_resolved_alert_has_its_end_and_none_in_the_future() -> None:
    (alert,) = parsed({**ALERT, "status": "resolved", "endsAt": "2026-02-05T08:59:30+00:00"})
    assert (alert.firing, alert.ended_at) == (False, NOW - timedelta(seconds=30))
    (alert,) = parsed(
        {**ALERT, "status": "resolved", "endsAt": "2027-01-01T00:00:00Z", "startsAt": "2027-01-01T00:00:00Z"}
    )
    assert (alert.begun_at, alert.ended_at) == (NOW, NOW)


@pytest.mark.parametrize(
    ("severity", "meant"),
    [("warning", Severity.WARNING), ("Info", Severity.WARNING), ("page", Severity.CRITICAL), ("", Severity.CRITICAL)],
)
def test_an_unknown_severity_is_critical(severity: str, meant: Severity) -> None:
    (alert,) = parsed({**ALERT, "labels": {**ALERT["labels"], "severity": severity}})
    assert alert.severity is meant


def test_texts_are_one_line_of_a_limited_length_without_control_characters() -> None:
    hostile = "<!channel>\x1b[31m\n\udcff" + "long " * 1000
    (alert,) = parsed({**ALERT, "labels": {"alertname": hostile}, "annotations": {"summary": hostile}})
    assert len(alert.name) <= NAME
    assert len(alert.summary) <= SUMMARY
    assert alert.name.isprintable()
    assert alert.summary.isprintable()


def test_our_own_alerts_that_come_back_are_left_out() -> None:
    ours = {**ALERT, "labels": {"alertname": "SupervisorAlert", "job": "supervisor-chatops", "alert": "a1"}}
    assert parsed(ours, ALERT) == parsed(ALERT)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"version": "3", "alerts": []}',
        b'{"version": "4"}',
        b'{"version": "4", "alerts": {}}',
        b'{"version": "4", "alerts": [7]}',
        b'{"version": "4", "alerts": [{"status": "firing"}]}',
        b'{"version": "4", "alerts": [{"status": "maybe", "labels": {}}]}',
        b'{"version": "4", "alerts": [{"status": "firing", "labels": {"a": 1}}]}',
        b'{"version": "4", "alerts": [{"status": "firing", "labels": {}, "startsAt": "soon"}]}',
        b'{"version": "4", "alerts": [{"status": "firing", "labels": {}, "annotations": [1]}]}',
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(PayloadError):
        parse_payload(body, "worker", NOW)


def test_too_many_alerts_in_one_request_are_refused() -> None:
    with pytest.raises(PayloadError, match="max_alerts"):
        parsed(*[ALERT] * (MOST_ALERTS + 1))
