"""PagerDuty's Events API v2 (https://developer.pagerduty.com/docs/events-api-v2/trigger-events/)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from supervisor_core.alerts.outside.formats.model import (
    CLIENT,
    AlertDocument,
    HttpCall,
    cut,
    details_of,
    is_acknowledgement,
    is_over,
    key_of,
    moment,
)
from supervisor_core.common.text import canonical_json
from supervisor_core.config.alert_settings import WebhookSettings

SUMMARY = 1024
"""Characters."""

SEVERITIES = {"critical": "critical", "warning": "warning"}
OTHER = "error"
"""For a severity that PagerDuty doesn't have."""


def pagerduty_call(document: AlertDocument, receiver: WebhookSettings, _: datetime) -> HttpCall:
    """An event: a trigger with the alert's facts, or an acknowledgement or resolution by the key alone.

    A trigger with the key of an open alert is an entry in its log, so a reminder opens no second one."""
    action = "resolve" if is_over(document) else "acknowledge" if is_acknowledgement(document) else "trigger"
    event: dict[str, Any] = {
        "routing_key": receiver.secret.get_secret_value(),
        "event_action": action,
        "dedup_key": key_of(document),
    }
    if action == "trigger":
        event |= {"client": CLIENT, "payload": _payload(document)}
    return HttpCall(receiver.address, canonical_json(event).encode(), {"Content-Type": "application/json"})


def _payload(document: AlertDocument) -> dict[str, Any]:
    return {
        "summary": cut(document["words"], SUMMARY),
        "source": document["host"],
        "severity": SEVERITIES.get(document["severity"], OTHER),
        "timestamp": moment(document, "since"),
        "component": document["target"]["id"],
        "group": document["target"]["type"],
        "class": document["condition"],
        "custom_details": details_of(document),
    }
