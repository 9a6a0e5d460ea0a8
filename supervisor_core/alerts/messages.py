"""Outbox rows for messages beside an alert's own one. Their content is made when they are sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from supervisor_core.alerts.rows import ALERT
from supervisor_core.alerts.rules import Alert
from supervisor_core.common.times import to_text
from supervisor_core.storage.outbox import reply_place
from supervisor_core.storage.steps import Message

NOTICE = "notice"
"""A message in a channel or thread that is edited when its row is ordered again."""

MORNING = "alert_morning"
"""The alerts of quiet hours, once those are over."""

CALL = "alert_call"
"""An unacknowledged alert, sent to more people."""

WEEK = "alert_week"
"""The summary of the last seven days."""

CONFIG = "config"
"""An applied or refused configuration; edited when workers that failed with it run."""

PAUSE_FLAG = "pause_flag"
"""A pause flag on the drive that was changed without a command, and put back."""

TAKEOVER = "takeover"
"""Another machine has become the hub."""

Place = Mapping[str, Any]


def morning(place: Place, since: datetime, until: datetime, kept: Collection[str]) -> Message:
    """One for each end of quiet hours."""
    said = {"since": to_text(since), "until": to_text(until), "alerts": list(kept)}
    return Message(MORNING, to_text(until), {**place, **said})


def week(place: Place, host: str, workers: Collection[str], since: datetime, until: datetime) -> Message:
    """One for each week, about the workers that there are at its end."""
    said = {"host": host, "workers": sorted(workers), "since": to_text(since), "until": to_text(until)}
    return Message(WEEK, f"{until:%Y-%m-%d}", {**place, **said})


def pause_flag_restored(place: Place, worker_id: str, what: str, at: datetime) -> Message:
    """One for each message."""
    said = {"worker_id": worker_id, "what": what}
    return Message(PAUSE_FLAG, f"{worker_id} {to_text(at)}", {**place, **said})


def hub_taken_over(place: Place, machine: str, before: str, last_sign: datetime, at: datetime) -> Message:
    """One for each takeover."""
    said = {"machine": machine, "before": before, "last_sign": to_text(last_sign), "at": to_text(at)}
    return Message(TAKEOVER, f"{machine} {to_text(at)}", {**place, **said})


def call_below(alert: Alert, step: int, people: Collection[str], *, broadcast: bool) -> Message:
    """People who are mentioned in the thread of an alert; one for each step of the escalation."""
    said = {"alert_id": alert.alert_id, "people": list(people), "broadcast": broadcast}
    return Message(CALL, f"{alert.alert_id}/call/{step}", {**reply_place(ALERT, alert.alert_id), **said})


def call_in(alert: Alert, step: int, channel: str) -> Message:
    """Another channel that hears of an alert, once for each step."""
    return Message(CALL, f"{alert.alert_id}/call/{step}/{channel}", {"channel": channel, "alert_id": alert.alert_id})
