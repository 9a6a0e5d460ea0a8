"""The sections about alerts: when one opens, whom it reaches, when it keeps quiet."""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import time
from typing import Annotated
from zoneinfo import ZoneInfo

from supervisor_core.common.cron import CronError, parse_cron
from supervisor_core.common.sections import (
    AfterValidator,
    BeforeValidator,
    Field,
    Invalid,
    SecretStr,
    Section,
)
from supervisor_core.config.fields import (
    DISTRIBUTION,
    Flag,
    Kind,
    Minutes,
    Number,
    OneOf,
    Pause,
    Seconds,
    Secret,
    SecretUrl,
    Span,
    WebUrl,
    installed,
    kind_of,
    mask_url,
    matching,
)
from supervisor_core.config.names import EscalationTarget

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_CRON = r"[0-9A-Za-z*/,?#-]+(?: +[0-9A-Za-z*/,?#-]+){4}"


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


def _zone(value: object) -> str:
    name = _zone_name(value)
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise Invalid("must be a time zone such as UTC or Europe/Berlin") from None
    return name


def _cron(value: object) -> str:
    """One that comes: what the schedule would stumble over is found here."""
    text = _cron_fields(value)
    try:
        return parse_cron(text)
    except CronError:  # its words have the value, which may be a secret
        raise Invalid("must be a valid cron expression, such as 0 3 * * 6") from None


_cron_fields = matching(_CRON, "five fields, such as 0 3 * * 6: minute, hour, day, month, weekday")
_zone_name = matching(r"[A-Za-z0-9_+/-]{1,64}", "a time zone such as UTC or Europe/Berlin")

Zone = Annotated[str, BeforeValidator(_zone), Kind("time zone")]
Clock = Annotated[time, BeforeValidator(_clock), Kind("time of day")]
Days = Annotated[tuple[str, ...], BeforeValidator(_days), Kind("days")]
Cron = Annotated[str, BeforeValidator(_cron), Kind("cron expression")]


class FlappingSettings(Section):
    """Flapping: many condition changes become one alert."""

    flips: Annotated[int, BeforeValidator(Number(2, 1000, whole=True))] = Field(
        default=6, description="Number of condition changes that count as flapping."
    )
    within_minutes: Span = Field(
        default=30.0, description="Time in which they are counted. As long without a change ends the alert."
    )


def _not_empty(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise Invalid("must not be empty")
    return values


class EscalationSettings(Section):
    """A step of escalation."""

    after_minutes: Minutes = Field(description="Time since people were first notified.")
    to: Annotated[tuple[EscalationTarget, ...], AfterValidator(_not_empty)] = Field(
        description="Users, usergroups or channels to notify, or [`{oncall: {…}}`](../how-to/find-who-is-on-call.md)."
    )


class QuietHours(Section):
    """Times when only critical alerts are posted."""

    days: Days = Field(default=DAYS, description="Days on which they begin: a list, or text such as `mon-fri, sun`.")
    start: Clock = Field(alias="from", description="Beginning, such as `22:00`.")
    end: Clock = Field(
        alias="to", description="End. If it is before the beginning, it's on the next day. `23:59` means midnight."
    )
    zone: Zone = Field(default="UTC", description="Time zone, such as `Europe/Berlin`.")

    def check_values(self) -> None:
        if self.start == self.end:
            raise Invalid("must have different times in from and to; for a whole day, use 00:00 and 23:59")


class Maintenance(Section):
    """A recurring mute."""

    target: Annotated[
        str,
        BeforeValidator(matching(r"\S{1,100}", "a worker id, team:NAME, a pattern such as a*, or all")),
        Kind("target"),
    ] = Field(description="A worker id, `team:NAME`, a pattern such as `a*`, or `all`, which includes the host itself.")
    cron: Cron = Field(description="Beginning: minute, hour, day, month, weekday.")
    minutes: Span = Field(description="Duration.")
    zone: Zone = Field(default="UTC", description="Time zone of the cron expression.")


JSON, PAGERDUTY, ALERTMANAGER = "json", "pagerduty", "alertmanager"
FORMATS = (JSON, PAGERDUTY, ALERTMANAGER)
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


def _format(value: object) -> object:
    if isinstance(value, str) and value in REMOVED_FORMATS:
        raise Invalid(f"{value} was removed; add {REMOVED_FORMATS[value]} to alerts.notify, which needs Apprise")
    return value


class WebhookSettings(Section):
    """A [receiver of alerts](../how-to/be-told-beyond-slack.md) outside Slack."""

    format: Annotated[str, BeforeValidator(OneOf(FORMATS)), BeforeValidator(_format)] = Field(
        default=JSON, description="Format that the receiver takes."
    )
    url: WebUrl = Field(
        default=SecretUrl(""),
        description="URL that alerts are sent to. Empty: none, or the service's own for `pagerduty`.",
        examples=["${WEBHOOK_URL:}"],
    )
    secret: Secret = Field(
        default=SecretStr(""),
        description="`json`: the secret that signs the requests, `whsec_…`. `pagerduty`: the integration key. "
        "`alertmanager`: a bearer token.",
        examples=["${WEBHOOK_SECRET:}"],
    )

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


class ReceiverSettings(WebhookSettings):
    """A further receiver of alerts. Each has a queue of its own."""

    name: Annotated[
        str,
        BeforeValidator(
            matching(
                r"(?!webhook$)[a-z0-9][a-z0-9-]{0,31}", "1 to 32 lowercase letters, digits and hyphens, and not webhook"
            )
        ),
        Kind("name"),
    ] = Field(description="Name in `supervisor status` and `supervisor alerts test`.")

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


def _each_once(receivers: tuple[ReceiverSettings, ...]) -> tuple[ReceiverSettings, ...]:
    names = [each.name for each in receivers]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Invalid(f"has the name {twice[0]} twice")
    return receivers


def _notify_url(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise Invalid(f"must be a URL in quotes, but is {kind_of(value)}")
    if value and not _NOTIFY_URL.fullmatch(value):
        raise Invalid("must be a URL of Apprise, such as mailtos://user:password@example.org")
    if value and not installed("apprise"):
        raise Invalid(f"needs Apprise, which is not installed: pip install '{DISTRIBUTION}[apprise]'")
    return value


_NOTIFY_URL = re.compile(r"[a-z][a-z0-9]*://.+")

NotifyUrl = Annotated[SecretStr, BeforeValidator(_notify_url), Kind("URL")]


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


class IncomingSettings(Section):
    """[Alerts from Alertmanager](../how-to/show-alertmanagers-alerts.md), at `/alertmanager` on `metrics.bind`."""

    token: Secret = Field(
        default=SecretStr(""),
        description="Bearer token that Alertmanager must send, at least 16 characters. Empty: off.",
        examples=["${ALERTMANAGER_TOKEN:}"],
    )
    worker_label: Annotated[
        str, BeforeValidator(matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "the name of a label")), Kind("label")
    ] = Field(default="worker", description="Label that names the worker which an alert is about.")
    forget_hours: Annotated[float, BeforeValidator(Number(0.01, 720, unit="hours"))] = Field(
        default=24.0,
        description="Time after which an alert ends that Alertmanager doesn't repeat. It must exceed its "
        "`repeat_interval`.",
    )

    def check_values(self) -> None:
        token = self.token.get_secret_value()
        if token and not re.fullmatch(r"[!-~]{16,512}", token):
            raise Invalid("must have 16 to 512 letters, digits and signs without spaces", "token")


class AlertSettings(Section):
    """[Alerts](../explanation/alerts.md)."""

    check_seconds: Pause = Field(
        default=5.0, description="Interval at which conditions are checked. Events are handled at once."
    )
    open_after_seconds: Seconds = Field(default=0.0, description="Duration of a problem before an alert opens.")
    close_after_seconds: Seconds = Field(default=0.0, description="Duration of good health before an alert closes.")
    start_grace_seconds: Seconds = Field(
        default=30.0, description="Time after a start without alerts about the worker."
    )
    renotify_minutes: Minutes = Field(
        default=60.0,
        description="Time until the first reminder. It doubles for each further one, up to a day. 0: no reminders.",
    )
    broadcast: Flag = Field(
        default=False, description="Post repeated occurrences to the channel as well as to the thread."
    )
    storm_threshold: Annotated[int, BeforeValidator(Number(1, 100_000, whole=True))] = Field(
        default=5, description="More alerts than this within the window become one digest."
    )
    storm_window_seconds: Pause = Field(default=30.0, description="Window of `storm_threshold`.")
    flapping: FlappingSettings = Field(default_factory=FlappingSettings)
    escalation: tuple[EscalationSettings, ...] = Field(
        default=(),
        description="Steps that notify more people while nobody acknowledges an alert.",
        examples=[{"after_minutes": 15, "to": ["S0ADMINS", "C0OPS"]}],
    )
    quiet_hours: tuple[QuietHours, ...] = Field(
        default=(),
        description="Times when only critical alerts are posted. A summary follows.",
        examples=[{"days": "mon-fri", "from": "22:00", "to": "06:00", "zone": "UTC"}],
    )
    maintenance: tuple[Maintenance, ...] = Field(
        default=(),
        description="Planned times without alerts about a target.",
        examples=[{"target": "all", "cron": "0 3 * * sun", "minutes": 60, "zone": "UTC"}],
    )
    webhook: WebhookSettings = Field(default_factory=WebhookSettings)
    receivers: Annotated[tuple[ReceiverSettings, ...], AfterValidator(_each_once)] = Field(
        default=(),
        description="Further receivers, with the settings of `alerts.webhook` and a name.",
        examples=[
            {"name": "prometheus", "format": "alertmanager", "url": "http://alertmanager:9093", "secret": "${TOKEN}"},
        ],
    )
    notify: tuple[NotifyUrl, ...] = Field(
        default=(),
        description="URLs of [Apprise](../how-to/be-told-beyond-slack.md#apprise), such as `[ntfys://ntfy.sh/TOPIC]`, "
        "for email and more than a hundred services. Needs the extra `apprise`.",
    )
    incoming: IncomingSettings = Field(default_factory=IncomingSettings)
    deadman_url: WebUrl = Field(
        default=SecretUrl(""),
        description="URL that is requested every minute while the daemon works, so that another service notices an "
        "outage. Empty: none.",
        examples=["${DEADMAN_URL:}"],
    )

    @property
    def outside(self) -> tuple[Receiver, ...]:
        """The receivers that are on. One of `notify` is named by its service, such as `notify:json`, and numbered from
        the second one on."""
        receivers: list[Receiver] = [each for each in (self.webhook, *self.receivers) if each.address]
        schemes: Counter[str] = Counter()
        for url in filter(None, (each.get_secret_value() for each in self.notify)):
            scheme = url.partition("://")[0]
            schemes[scheme] += 1
            number = f"-{schemes[scheme]}" if schemes[scheme] > 1 else ""
            receivers.append(NotifyReceiver(f"notify:{scheme}{number}", url))
        return tuple(receivers)
