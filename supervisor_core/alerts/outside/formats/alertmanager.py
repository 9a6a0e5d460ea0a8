"""Prometheus Alertmanager's API v2 (api/v2/openapi.yaml: `postableAlerts`)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from supervisor_core.alerts.outside.formats.model import CLIENT, AlertDocument, HttpCall, details_of, is_over, moment
from supervisor_core.alerts.rules import Reason
from supervisor_core.common.text import canonical_json
from supervisor_core.config.alert_settings import WebhookSettings
from supervisor_core.workers.conditions.rules import Severity

PATH = "/api/v2/alerts"
LASTS = timedelta(days=30)
"""Alertmanager closes an alert without an end after five minutes, unless it's repeated. Ours end this much later."""

NAME = "SupervisorAlert"
"""The label `alertname`, which must stay the same while the condition changes."""


def alertmanager_call(document: AlertDocument, receiver: WebhookSettings, _: datetime) -> HttpCall:
    """The alert by its labels, which are its key at Alertmanager.

    The severity is one of them, because routes need it. So the alert with the other severity ends when it changes."""
    severity, over = str(document["severity"]), is_over(document)
    alerts = [_alert(document, severity, over=over)]
    if document["event"] != Reason.FIRST:
        alerts += [_alert(document, str(other), over=True) for other in Severity if other != severity]
    token = receiver.secret.get_secret_value()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    return HttpCall(f"{receiver.address.rstrip('/')}{PATH}", canonical_json(alerts).encode(), headers)


def _alert(document: AlertDocument, severity: str, *, over: bool) -> dict[str, Any]:
    target, details = document["target"], details_of(document)
    ended = moment(document, "until" if document["until"] else "at")
    return {
        "labels": {
            "alertname": NAME,
            "alert": document["alert"],
            "host": document["host"],
            "target_type": target["type"],
            "target": target["id"],
            "severity": severity,
            "job": CLIENT,
        },
        "annotations": {
            "summary": document["words"],
            "condition": details["condition"],
            "description": document["reason"],
        },
        "startsAt": moment(document, "since"),
        "endsAt": ended if over else moment(document, "at", LASTS),
    }
