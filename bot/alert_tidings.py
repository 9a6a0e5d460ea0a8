"""What is told beside the one message of each alert, read off the rows at the moment when it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from bot.views import tidings as views
from bot.views.told import Content
from supervisor_core.domain.times import from_text
from supervisor_core.ledger import alerts
from supervisor_core.ledger.outbox import Waiting

Link = Callable[[Mapping[str, Any]], str]


def tidings(connection: Connection, message: Waiting, link: Link) -> Content | None:
    """What it says now; nothing where it would add nothing by now."""
    return _morning(connection, message.payload)


def _morning(connection: Connection, payload: Mapping[str, Any]) -> Content | None:
    found = [alerts.find(connection, str(alert_id)) for alert_id in payload["alerts"]]
    kept = [alert for alert in found if alert is not None]
    if not kept:
        return None
    return views.morning(kept, from_text(str(payload["since"])), from_text(str(payload["until"])))
