"""The table of formats: the request that each makes, and the events beyond opening and recovery that it supports."""

from __future__ import annotations

from datetime import datetime

from supervisor_core.alerts.outside.formats.alertmanager import alertmanager_call
from supervisor_core.alerts.outside.formats.model import AlertDocument, HttpCall
from supervisor_core.alerts.outside.formats.own_json import json_call
from supervisor_core.alerts.outside.formats.pagerduty import pagerduty_call
from supervisor_core.alerts.outside.notify import Notification, notification
from supervisor_core.config.alert_settings import JSON, PAGERDUTY, NotifyReceiver, Receiver

CALLS = {JSON: json_call, PAGERDUTY: pagerduty_call}


def call_of(document: AlertDocument, receiver: Receiver, now: datetime) -> HttpCall | Notification:
    """The request about an alert, in the format of this receiver."""
    if isinstance(receiver, NotifyReceiver):
        return notification(document, receiver, now)
    return CALLS.get(receiver.format, alertmanager_call)(document, receiver, now)


def acknowledges(receiver: Receiver) -> bool:
    """True if acknowledgements are sent to the receiver."""
    return receiver.format in CALLS
