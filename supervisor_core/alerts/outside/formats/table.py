"""The table of formats: the request that each makes, and the events beyond opening and recovery that it supports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from supervisor_core.alerts.outside.formats.alertmanager import alertmanager_call
from supervisor_core.alerts.outside.formats.mail import mail_call
from supervisor_core.alerts.outside.formats.model import AlertCall, AlertDocument
from supervisor_core.alerts.outside.formats.opsgenie import opsgenie_call
from supervisor_core.alerts.outside.formats.own_json import json_call
from supervisor_core.alerts.outside.formats.pagerduty import pagerduty_call
from supervisor_core.alerts.outside.formats.slack_webhook import slack_call
from supervisor_core.config.alert_settings import (
    ALERTMANAGER,
    EMAIL,
    JSON,
    OPSGENIE,
    PAGERDUTY,
    SLACK,
    WebhookSettings,
)

MakeCall = Callable[[AlertDocument, WebhookSettings, datetime], AlertCall]
"""The request about an alert for a receiver, of an attempt at this time."""


@dataclass(frozen=True, slots=True)
class AlertFormat:
    """One format."""

    make: MakeCall
    acknowledges: bool = False
    """True if acknowledgements are sent to the receiver."""


TABLE = {
    JSON: AlertFormat(json_call, acknowledges=True),
    PAGERDUTY: AlertFormat(pagerduty_call, acknowledges=True),
    OPSGENIE: AlertFormat(opsgenie_call, acknowledges=True),
    ALERTMANAGER: AlertFormat(alertmanager_call),
    SLACK: AlertFormat(slack_call),
    EMAIL: AlertFormat(mail_call),
}


def call_of(document: AlertDocument, receiver: WebhookSettings, now: datetime) -> AlertCall:
    """The request about an alert, in the format of this receiver."""
    return TABLE[receiver.format].make(document, receiver, now)


def acknowledges(receiver: WebhookSettings) -> bool:
    return TABLE[receiver.format].acknowledges
