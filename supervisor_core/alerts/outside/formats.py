"""The requests about an alert, each from its document: our own signed JSON, PagerDuty, Alertmanager, Apprise."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from supervisor_core.alerts.rules import Reason
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import from_text
from supervisor_core.config.schema import (
    JSON,
    PAGERDUTY,
    NotifyReceiver,
    Receiver,
    WebhookSettings,
    signing_key,
)
from supervisor_core.workers.conditions import Severity

if TYPE_CHECKING:
    from supervisor_core.alerts.outside.notify import Notification

AlertDocument = Mapping[str, Any]
"""The document of one message of an alert, as `documents.document` makes it, with its delivery id."""

CLIENT = "supervisor-chatops"
DETAILS = ("condition", "severity", "reason", "host", "target", "since", "occurrences", "alert", "parent")

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
REPLAY_SECONDS = 300
"""The difference that a receiver allows between the timestamp and its clock; each attempt has its own timestamp."""

SUMMARY = 1024  # characters that PagerDuty takes
ALERTMANAGER_PATH = "/api/v2/alerts"
ALERTMANAGER_NAME = "SupervisorAlert"
"""The label `alertname`, which must stay the same while the condition changes."""

ALERTMANAGER_LASTS = timedelta(days=30)
"""Alertmanager closes an alert without an end after five minutes, unless it's repeated. Ours end this much later."""


class HttpCall(NamedTuple):
    url: str
    body: bytes
    headers: Mapping[str, str]


def call_of(document: AlertDocument, receiver: Receiver, now: datetime) -> HttpCall | Notification:
    """The request about an alert, in the format of this receiver."""
    if isinstance(receiver, NotifyReceiver):
        from supervisor_core.alerts.outside.notify import notification

        return notification(document, receiver)
    if receiver.format == JSON:
        return json_call(document, receiver, now)
    return pagerduty_call(document, receiver) if receiver.format == PAGERDUTY else alertmanager_call(document, receiver)


def acknowledges(receiver: Receiver) -> bool:
    """True if acknowledgements are sent to the receiver."""
    return receiver.format in (JSON, PAGERDUTY)


def json_call(document: AlertDocument, receiver: WebhookSettings, now: datetime) -> HttpCall:
    """The document itself, signed as Standard Webhooks 1.0.0 describes (https://www.standardwebhooks.com)."""
    body = body_of(document)
    headers = headers_of(body, document["delivery"], receiver.secret.get_secret_value(), now)
    return HttpCall(receiver.address, body, headers)


def body_of(document: AlertDocument) -> bytes:
    return canonical_json({name: value for name, value in document.items() if name != "receiver"}).encode()


def headers_of(body: bytes, delivery: str, secret: str, now: datetime) -> dict[str, str]:
    """The headers of one attempt. Without a secret nothing is signed.

    The id is the same for each attempt, so a receiver can ignore the second of two."""
    timestamp = int(now.timestamp())
    headers = {"Content-Type": "application/json", ID: delivery, TIMESTAMP: str(timestamp)}
    return {**headers, SIGNATURE: signature(secret, delivery, timestamp, body)} if secret else headers


def signature(secret: str, delivery: str, timestamp: int, body: bytes) -> str:
    """Sign the id, the time and the body. An id has letters and digits only, so where it ends is certain."""
    key = signing_key(secret)
    if key is None:  # pragma: no cover (the configuration refuses it)
        raise ValueError("the secret isn't one of Standard Webhooks")
    digest = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def pagerduty_call(document: AlertDocument, receiver: WebhookSettings) -> HttpCall:
    """An event of PagerDuty's Events API v2 (https://developer.pagerduty.com/docs/events-api-v2/trigger-events/): a
    trigger with the alert's facts, or an acknowledgement or resolution by the key alone.

    The key is the same from the first message to the last, and on every host another. A trigger with the key of an open
    alert is an entry in its log, so a reminder opens no second one."""
    actions = {Reason.RESOLVED: "resolve", Reason.ACKNOWLEDGED: "acknowledge"}
    event: dict[str, Any] = {
        "routing_key": receiver.secret.get_secret_value(),
        "event_action": actions.get(document["event"], "trigger"),
        "dedup_key": f"{document['host']}/{document['alert']}",
    }
    if event["event_action"] == "trigger":
        severity = document["severity"]
        event |= {
            "client": CLIENT,
            "payload": {
                "summary": cut(document["words"], SUMMARY),
                "source": document["host"],
                "severity": severity if severity in ("critical", "warning") else "error",
                "timestamp": moment(document, "since"),
                "component": document["target"]["id"],
                "group": document["target"]["type"],
                "class": document["condition"],
                "custom_details": details_of(document),
            },
        }
    return HttpCall(receiver.address, canonical_json(event).encode(), {"Content-Type": "application/json"})


def alertmanager_call(document: AlertDocument, receiver: WebhookSettings) -> HttpCall:
    """The alert for Prometheus Alertmanager's API v2 (api/v2/openapi.yaml: `postableAlerts`), by its labels.

    The labels are its key there. The severity is one of them, because routes need it. So the alert with the other
    severity ends when it changes."""
    severity, over = str(document["severity"]), is_over(document)
    alerts = [_alertmanager_alert(document, severity, over=over)]
    if document["event"] != Reason.FIRST:
        alerts += [_alertmanager_alert(document, str(other), over=True) for other in Severity if other != severity]
    token = receiver.secret.get_secret_value()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    return HttpCall(f"{receiver.address.rstrip('/')}{ALERTMANAGER_PATH}", canonical_json(alerts).encode(), headers)


def _alertmanager_alert(document: AlertDocument, severity: str, *, over: bool) -> dict[str, Any]:
    ended = moment(document, "until" if document["until"] else "at")
    return {
        "labels": {
            "alertname": ALERTMANAGER_NAME,
            "alert": document["alert"],
            "host": document["host"],
            "target_type": document["target"]["type"],
            "target": document["target"]["id"],
            "severity": severity,
            "job": CLIENT,
        },
        "annotations": {
            "summary": document["words"],
            "condition": details_of(document)["condition"],
            "description": document["reason"],
        },
        "startsAt": moment(document, "since"),
        "endsAt": ended if over else moment(document, "at", ALERTMANAGER_LASTS),
    }


def is_over(document: AlertDocument) -> bool:
    return str(document["event"]) == Reason.RESOLVED


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def details_of(document: AlertDocument) -> dict[str, str]:
    """The facts of an alert as text, without empty ones."""
    target = document["target"]
    facts = {**document, "target": f"{target['type']} {target['id']}"}
    return {name: str(facts[name]) for name in DETAILS if facts.get(name) not in (None, "")}


def moment(document: AlertDocument, name: str, later: timedelta = timedelta()) -> str:
    """A time of the document in RFC 3339, or so much later."""
    at: datetime = from_text(document[name]) + later
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
