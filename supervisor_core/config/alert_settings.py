"""The sections about alerts: when one opens, whom it reaches, when it keeps quiet."""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from supervisor_core.common.cron import CronError, parse_cron
from supervisor_core.config.fields import (
    NO_SECRET,
    NO_URL,
    Minutes,
    Pause,
    Seconds,
    Span,
    WebUrl,
    mask_url,
    require_driver,
)
from supervisor_core.config.names import EscalationTarget
from supervisor_core.config.sections import Invalid, SecretStr, Section, checked, kind_of, number, pattern

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def _days(value: object) -> tuple[str, ...]:
    """Days as a list, or as text such as `mon-fri, sun`; kept in the order of the week."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str) for part in parts):
        raise Invalid(f"must be a list of days such as [mon, tue] or mon-fri, but is {kind_of(value)}")
    chosen: set[str] = set()
    for part in parts:
        first, _, last = part.strip().lower().partition("-")
        last = last or first
        if first not in DAYS or last not in DAYS:
            raise Invalid(f"must be days ({', '.join(DAYS)}) or a range such as mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last)
        span = DAYS[begin : end + 1] if begin <= end else DAYS[begin:] + DAYS[: end + 1]
        chosen.update(span)
    return tuple(day for day in DAYS if day in chosen)


def _clock(value: object) -> time:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Invalid("must be a time of day such as 22:00")
    return time(int(match[1]), int(match[2]))


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise Invalid("must be a time zone such as UTC or Europe/Berlin") from None
    return name


def _check_cron(text: str) -> str:
    try:
        return parse_cron(text)
    except CronError:  # its words have the value, which may be a secret
        raise Invalid("must be a valid cron expression, such as 0 3 * * 6") from None


_FIELD = "[0-9A-Za-z*/,?#-]+"
Cron = Annotated[
    str,
    pattern(
        f"{_FIELD}(?: +{_FIELD}){{4}}",
        "five fields, such as 0 3 * * 6: minute, hour, day, month, weekday",
        "cron expression",
    ),
    checked(_check_cron),
]
Zone = Annotated[
    str,
    pattern(r"[A-Za-z0-9_+/-]{1,64}", "a time zone such as UTC or Europe/Berlin", "time zone"),
    checked(_check_zone),
]
Clock = Annotated[time, checked(_clock, "time of day")]
Days = Annotated[tuple[str, ...], checked(_days, "days")]
Target = Annotated[str, pattern(r"\S{1,100}", "a worker id, team:NAME, a pattern such as a*, or all", "target")]


class FlappingSettings(Section, frozen=True):
    """Flapping: many condition changes become one alert."""

    flips: Annotated[int, number(2, 1000)] = 6
    """Number of condition changes that count as flapping."""
    within_minutes: Span = 30.0
    """Time in which they are counted. As long without a change ends the alert."""


class EscalationSettings(Section, frozen=True):
    """A step of escalation."""

    after_minutes: Minutes
    """Time since people were first notified."""
    to: tuple[EscalationTarget, ...]
    """Users, usergroups or channels to notify, or [`{oncall: {…}}`](../how-to/find-who-is-on-call.md)."""

    def check_values(self) -> None:
        if not self.to:
            raise Invalid("must not be empty", "to")


class QuietHours(Section, frozen=True, kw_only=True):
    """Times when only critical alerts are posted."""

    days: Days = DAYS
    """Days on which they begin: a list, or text such as `mon-fri, sun`."""
    start: Clock = msgspec.field(name="from")
    """Beginning, such as `22:00`."""
    end: Clock = msgspec.field(name="to")
    """End. If it is before the beginning, it's on the next day. `23:59` means midnight."""
    zone: Zone = "UTC"
    """Time zone, such as `Europe/Berlin`."""

    def check_values(self) -> None:
        if self.start == self.end:
            raise Invalid("must have different times in from and to; for a whole day, use 00:00 and 23:59")


class Maintenance(Section, frozen=True):
    """A recurring mute."""

    target: Target
    """A worker id, `team:NAME`, a pattern such as `a*`, or `all`, which includes the host itself."""
    cron: Cron
    """Beginning: minute, hour, day, month, weekday."""
    minutes: Span
    """Duration."""
    zone: Zone = "UTC"
    """Time zone of the cron expression."""


JSON, PAGERDUTY, ALERTMANAGER = "json", "pagerduty", "alertmanager"
REMOVED_FORMATS = {
    "opsgenie": "opsgenie://API_KEY",
    "slack": "slack://TOKEN_A/TOKEN_B/TOKEN_C",
    "email": "mailtos://USER:PASSWORD@HOST?from=FROM&to=TO",
}
"""Formats of earlier versions, and the form of the URL in `alerts.notify` that replaced each."""

NOTIFY = "apprise"
"""The format of the receivers in `alerts.notify`."""

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"

WEBHOOK = "webhook"
"""The name of the receiver that has none of its own."""

SIGNING_PREFIX = "whsec_"
SIGNING_BYTES = range(24, 65)
"""The length of a secret of Standard Webhooks."""


def _refuse_removed(value: object) -> object:
    if isinstance(value, str) and value in REMOVED_FORMATS:
        raise Invalid(f"{value} was removed; add {REMOVED_FORMATS[value]} to alerts.notify, which needs Apprise")
    return value


class WebhookSettings(Section, frozen=True):
    """A [receiver of alerts](../how-to/be-told-beyond-slack.md) outside Slack."""

    format: Annotated[Literal["json", "pagerduty", "alertmanager"], checked(_refuse_removed)] = "json"
    """Format that the receiver takes."""
    url: Annotated[WebUrl, Meta(examples=["${WEBHOOK_URL:}"])] = NO_URL
    """URL that alerts are sent to. Empty: none, or the service's own for `pagerduty`."""
    secret: Annotated[SecretStr, Meta(examples=["${WEBHOOK_SECRET:}"])] = NO_SECRET
    """`json`: the secret that signs the requests, `whsec_…`. `pagerduty`: the integration key. `alertmanager`: a bearer
    token."""

    @property
    def label(self) -> str:
        """The name of this receiver in the outbox, in `status` and on the command line."""
        return WEBHOOK

    @property
    def address(self) -> str:
        """The URL in force; empty for a receiver that is off."""
        given = self.url.get_secret_value()
        if self.format == PAGERDUTY:
            return (given or PAGERDUTY_URL) if self.secret else ""
        return given

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return mask_url(self.address)

    def check_values(self) -> None:
        secret = self.secret.get_secret_value()
        if secret and not (secret.isascii() and secret.isprintable() and " " not in secret):
            raise Invalid("has characters that a key doesn't have, such as a space", "secret")
        if secret and self.format == PAGERDUTY and not re.fullmatch(r"[0-9A-Za-z]{32}", secret):
            raise Invalid("must be an integration key of Events API v2: 32 letters and digits", "secret")
        if self.format == JSON and secret.startswith(SIGNING_PREFIX) and signing_key(secret) is None:
            expected = f"{SIGNING_PREFIX} and {SIGNING_BYTES[0]} to {SIGNING_BYTES[-1]} bytes in base64"
            raise Invalid(f"must be {expected}: echo {SIGNING_PREFIX}$(openssl rand -base64 32)", "secret")


class ReceiverSettings(WebhookSettings, frozen=True, kw_only=True):
    """A further receiver of alerts. Each has a queue of its own."""

    name: Annotated[
        str,
        pattern(
            "(?!webhook$)[a-z0-9][a-z0-9-]{0,31}",
            "1 to 32 lowercase letters, digits and hyphens, and not webhook",
            "name",
        ),
    ]
    """Name in `supervisor status` and `supervisor alerts test`."""

    @property
    def label(self) -> str:
        return self.name


def signing_key(secret: str) -> bytes | None:
    """The key that signs requests: the bytes behind `whsec_`, or those of another text; None for nonsense."""
    if not secret.startswith(SIGNING_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX), validate=True)
    except ValueError:
        return None
    return key if len(key) in SIGNING_BYTES else None


def _notify_url(value: object) -> SecretStr:
    if not isinstance(value, str) or not value.isprintable():
        raise Invalid(f"must be a URL in quotes, but is {kind_of(value)}")
    if value and not _NOTIFY_URL.fullmatch(value):
        raise Invalid("must be a URL of Apprise, such as mailtos://user:password@example.org")
    if value:
        require_driver("apprise", "apprise", "Apprise")
    return SecretStr(value)


_NOTIFY_URL = re.compile(r"[a-z][a-z0-9]*://.+")

NotifyUrl = Annotated[SecretStr, checked(_notify_url, "URL")]


@dataclass(frozen=True, slots=True)
class NotifyReceiver:
    """A URL of `alerts.notify`."""

    label: str
    address: str = field(repr=False)
    format: str = NOTIFY

    @property
    def shown(self) -> str:
        """The service alone: any other part may be a token, the host, too."""
        return f"{self.address.partition('://')[0]}://…"


Receiver = WebhookSettings | NotifyReceiver


class IncomingSettings(Section, frozen=True):
    """[Alerts from Alertmanager](../how-to/show-alertmanagers-alerts.md), at `/alertmanager` on `metrics.bind`."""

    token: Annotated[SecretStr, Meta(examples=["${ALERTMANAGER_TOKEN:}"])] = NO_SECRET
    """Bearer token that Alertmanager must send, at least 16 characters. Empty: off."""
    worker_label: Annotated[str, pattern("[A-Za-z_][A-Za-z0-9_]{0,63}", "the name of a label", "label")] = "worker"
    """Label that names the worker which an alert is about."""
    forget_hours: Annotated[float, number(0.01, 720, "hours")] = 24.0
    """Time after which an alert ends that Alertmanager doesn't repeat. It must exceed its `repeat_interval`."""

    def check_values(self) -> None:
        token = self.token.get_secret_value()
        if token and not re.fullmatch(r"[!-~]{16,512}", token):
            raise Invalid("must have 16 to 512 letters, digits and signs without spaces", "token")


class AlertSettings(Section, frozen=True):
    """[Alerts](../explanation/alerts.md)."""

    check_seconds: Pause = 5.0
    """Interval at which conditions are checked. Events are handled at once."""
    open_after_seconds: Seconds = 0.0
    """Duration of a problem before an alert opens."""
    close_after_seconds: Seconds = 0.0
    """Duration of good health before an alert closes."""
    start_grace_seconds: Seconds = 30.0
    """Time after a start without alerts about the worker."""
    renotify_minutes: Minutes = 60.0
    """Time until the first reminder. It doubles for each further one, up to a day. 0: no reminders."""
    broadcast: bool = False
    """Post repeated occurrences to the channel as well as to the thread."""
    storm_threshold: Annotated[int, number(1, 100_000)] = 5
    """More alerts than this within the window become one digest."""
    storm_window_seconds: Pause = 30.0
    """Window of `storm_threshold`."""
    flapping: FlappingSettings = FlappingSettings()
    escalation: Annotated[
        tuple[EscalationSettings, ...], Meta(examples=[{"after_minutes": 15, "to": ["S0ADMINS", "C0OPS"]}])
    ] = ()
    """Steps that notify more people while nobody acknowledges an alert."""
    quiet_hours: Annotated[
        tuple[QuietHours, ...], Meta(examples=[{"days": "mon-fri", "from": "22:00", "to": "06:00", "zone": "UTC"}])
    ] = ()
    """Times when only critical alerts are posted. A summary follows."""
    maintenance: Annotated[
        tuple[Maintenance, ...], Meta(examples=[{"target": "all", "cron": "0 3 * * sun", "minutes": 60, "zone": "UTC"}])
    ] = ()
    """Planned times without alerts about a target."""
    webhook: WebhookSettings = WebhookSettings()
    receivers: Annotated[
        tuple[ReceiverSettings, ...], Meta(examples=[{"name": "phones", "format": "pagerduty", "secret": "${TOKEN}"}])
    ] = ()
    """Further receivers, with the settings of `alerts.webhook` and a name."""
    notify: tuple[NotifyUrl, ...] = ()
    """URLs of [Apprise](../how-to/be-told-beyond-slack.md#apprise), such as `[ntfys://ntfy.sh/TOPIC]`, for email and
    more than a hundred services. Needs the extra `apprise`."""
    incoming: IncomingSettings = IncomingSettings()
    deadman_url: Annotated[WebUrl, Meta(examples=["${DEADMAN_URL:}"])] = NO_URL
    """URL that is requested every minute while the daemon works, so that another service notices an outage. Empty:
    none."""

    def check_values(self) -> None:
        names = [receiver.name for receiver in self.receivers]
        if twice := [name for name in names if names.count(name) > 1]:
            raise Invalid(f"has the name {twice[0]} twice", "receivers")

    @property
    def outside(self) -> tuple[Receiver, ...]:
        """The receivers that are on. One of `notify` is named by its service, such as `notify:json`, and numbered from
        the second one on."""
        receivers: list[Receiver] = [receiver for receiver in (self.webhook, *self.receivers) if receiver.address]
        schemes: Counter[str] = Counter()
        for url in filter(None, (secret.get_secret_value() for secret in self.notify)):
            scheme = url.partition("://")[0]
            schemes[scheme] += 1
            suffix = f"-{schemes[scheme]}" if schemes[scheme] > 1 else ""
            receivers.append(NotifyReceiver(f"notify:{scheme}{suffix}", url))
        return tuple(receivers)
