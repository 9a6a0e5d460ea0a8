"""The sections about alerts: when one opens, whom it reaches, when it keeps quiet."""

from __future__ import annotations

import re
from datetime import time
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from supervisor_core.common.cron import CronError, parse_cron
from supervisor_core.config.fields import (
    Flag,
    Minutes,
    Pause,
    Seconds,
    Secret,
    SecretUrl,
    Section,
    Span,
    WebUrl,
    invalid,
    kind_of,
    matching,
    number,
)
from supervisor_core.config.names import EscalationTarget

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_CRON = r"[0-9A-Za-z*/,?#-]+(?: +[0-9A-Za-z*/,?#-]+){4}"


def _days(value: object) -> tuple[str, ...]:
    """Days as a list, or as text such as `mon-fri, sun`; kept in the order of the week."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str) for part in parts):
        raise invalid(f"must be a list of days such as [mon, tue] or mon-fri, but is {kind_of(value)}")
    chosen: set[str] = set()
    for part in parts:
        first, _, last = part.strip().lower().partition("-")
        last = last or first
        if first not in DAYS or last not in DAYS:
            raise invalid(f"must be days out of {', '.join(DAYS)}, or a span such as mon-fri")
        begin, end = DAYS.index(first), DAYS.index(last)
        span = DAYS[begin : end + 1] if begin <= end else DAYS[begin:] + DAYS[: end + 1]
        chosen.update(span)
    return tuple(day for day in DAYS if day in chosen)


def _clock(value: object) -> time:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise invalid("must be a time of day such as 22:00")
    return time(int(match[1]), int(match[2]))


def _zone(value: object) -> str:
    name = _zone_name(value)
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise invalid("must be a time zone such as UTC or Europe/Berlin") from None
    return name


def _cron(value: object) -> str:
    """One that comes: what the schedule would stumble over is found here."""
    text = _cron_fields(value)
    try:
        return parse_cron(text).text
    except CronError:  # its words have the value, which may be a secret
        raise invalid("has a field that means nothing, or a day that never comes; such as 0 3 * * 6 is right") from None


_cron_fields = matching(_CRON, "five fields, such as 0 3 * * 6: minute, hour, day, month, weekday")
_zone_name = matching(r"[A-Za-z0-9_+/-]{1,64}", "a time zone such as UTC or Europe/Berlin")

Zone = Annotated[str, BeforeValidator(_zone)]
Clock = Annotated[time, BeforeValidator(_clock)]
Days = Annotated[tuple[str, ...], BeforeValidator(_days)]
Cron = Annotated[str, BeforeValidator(_cron)]


class FlappingSettings(Section):
    """The number of changes of health, and the time, that count as flapping."""

    flips: Annotated[int, BeforeValidator(number(2, 1000, whole=True))] = 6
    within_minutes: Span = 30.0


class EscalationSettings(Section):
    """Additional recipients of an alert that nobody acknowledges for so long."""

    after_minutes: Minutes
    to: Annotated[tuple[EscalationTarget, ...], Field(min_length=1)]


class QuietHours(Section):
    """Times when only critical alerts come through. An `end` before `start` is on the next day."""

    days: Days = DAYS
    start: Clock = Field(alias="from")
    end: Clock = Field(alias="to")
    zone: Zone = "UTC"

    @model_validator(mode="after")
    def _has_a_length(self) -> QuietHours:
        if self.start == self.end:
            raise invalid("has the same time in from and to; for a whole day write 00:00 and 23:59")
        return self


class Maintenance(Section):
    """Recurring mutes of a target."""

    target: Annotated[
        str, BeforeValidator(matching(r"\S{1,100}", "a worker id, team:NAME, a pattern such as a*, or all"))
    ]
    cron: Cron
    minutes: Span
    zone: Zone = "UTC"


class WebhookSettings(Section):
    """The receiver of alerts as JSON, and the secret that signs them."""

    url: WebUrl = SecretUrl("")
    secret: Secret = SecretStr("")


class AlertSettings(Section):
    """Opening, closing, repetition and suppression of alerts."""

    check_seconds: Pause = 5.0
    open_after_seconds: Seconds = 0.0
    close_after_seconds: Seconds = 0.0
    start_grace_seconds: Seconds = 30.0
    renotify_minutes: Minutes = 60.0
    broadcast: Flag = False
    storm_threshold: Annotated[int, BeforeValidator(number(1, 100_000, whole=True))] = 5
    storm_window_seconds: Pause = 30.0
    flapping: FlappingSettings = Field(default_factory=FlappingSettings)
    escalation: tuple[EscalationSettings, ...] = ()
    quiet_hours: tuple[QuietHours, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    webhook: WebhookSettings = Field(default_factory=WebhookSettings)
    deadman_url: WebUrl = SecretUrl("")
