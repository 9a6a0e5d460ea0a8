"""What is told beside the one message of each alert, read off the rows at the moment when it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from bot.views import tidings as views
from bot.views.told import Content
from supervisor_core.domain.alerts import AlertState
from supervisor_core.domain.times import from_text
from supervisor_core.ledger import alerts, outbox, uptimes
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.tidings import MORNING, WEEK

Link = Callable[[Mapping[str, Any]], str]


def tidings(connection: Connection, message: Waiting, link: Link) -> Content | None:
    """What it says now; nothing where it would add nothing by now."""
    if message.kind == MORNING:
        return _morning(connection, message.payload)
    if message.kind == WEEK:
        return _week(connection, message.payload)
    return _call(connection, message.payload, link)


def _morning(connection: Connection, payload: Mapping[str, Any]) -> Content | None:
    found = [alerts.find(connection, str(alert_id)) for alert_id in payload["alerts"]]
    kept = [alert for alert in found if alert is not None]
    if not kept:
        return None
    return views.morning(kept, from_text(str(payload["since"])), from_text(str(payload["until"])))


def _call(connection: Connection, payload: Mapping[str, Any], link: Link) -> Content | None:
    """Nobody is called for what is over, or for what somebody looks after by then."""
    alert = alerts.find(connection, str(payload["alert_id"]))
    if alert is None or alert.state not in (AlertState.PENDING, AlertState.OPEN):
        return None
    if "people" in payload:
        return views.call(alert, [str(each) for each in payload["people"]])
    place = outbox.place_of(connection, alerts.ALERT, alert.alert_id) or {}
    return views.call_elsewhere(alert, str(place.get("channel") or ""), link(place))


def _week(connection: Connection, payload: Mapping[str, Any]) -> Content:
    host, since, until = str(payload["host"]), from_text(str(payload["since"])), from_text(str(payload["until"]))
    begun = alerts.begun_within(connection, host, since, until)
    worked = uptimes.of_workers(connection, host, [str(each) for each in payload["workers"]], until, [until - since])
    return views.week(host, since, until, begun, {worker_id: each for worker_id, (each,) in worked.items()})
