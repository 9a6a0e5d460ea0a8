"""Opsgenie's Alert API (https://docs.opsgenie.com/docs/alert-api)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from supervisor_core.alerts.outside.formats.model import (
    CLIENT,
    AlertDocument,
    HttpCall,
    cut,
    details_of,
    is_acknowledgement,
    is_over,
    key_of,
)
from supervisor_core.common.text import canonical_json
from supervisor_core.config.alert_settings import WebhookSettings

ALERTS = "/v2/alerts"
MESSAGE, DESCRIPTION, ENTITY, USER, TAG, DETAIL = 130, 15_000, 512, 100, 50, 500
"""Characters. All details together may have 8,000."""

PRIORITIES = {"critical": "P1", "warning": "P3"}
OTHER = "P3"


def opsgenie_call(document: AlertDocument, receiver: WebhookSettings, _: datetime) -> HttpCall:
    """A new alert, or the end or acknowledgement of the one with this alias.

    A new one with the alias of an open one raises that one's count."""
    action = "close" if is_over(document) else "acknowledge" if is_acknowledgement(document) else ""
    path = f"{ALERTS}/{quote(key_of(document), safe='')}/{action}?identifierType=alias" if action else ALERTS
    body = _action(document) if action else _alert(document)
    headers = {"Content-Type": "application/json", "Authorization": f"GenieKey {receiver.secret.get_secret_value()}"}
    return HttpCall(f"{receiver.address.rstrip('/')}{path}", canonical_json(body).encode(), headers)


def _action(document: AlertDocument) -> dict[str, Any]:
    by = document["acknowledged_by"] if is_acknowledgement(document) else None
    return {"source": CLIENT, "user": cut(by or document["host"], USER), "note": cut(document["words"], DESCRIPTION)}


def _alert(document: AlertDocument) -> dict[str, Any]:
    return {
        "message": cut(document["words"], MESSAGE),
        "alias": key_of(document),
        "description": cut(document["words"], DESCRIPTION),
        "entity": cut(document["target"]["id"], ENTITY),
        "source": CLIENT,
        "priority": PRIORITIES.get(document["severity"], OTHER),
        "tags": [cut(document["condition"], TAG), cut(document["target"]["type"], TAG)],
        "details": {name: cut(value, DETAIL) for name, value in details_of(document).items()},
    }
