"""Whom an alert reaches in addition while nobody has acknowledged it: the steps of the configuration, as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from supervisor_core.config import SupervisorConfig
from supervisor_core.config.alerting import Escalation
from supervisor_core.domain.alerts import Alert
from supervisor_core.ledger import tidings
from supervisor_core.ledger.steps import Message

CHANNELS = ("C", "G", "D")
"""How the id of a channel begins; all others are people, or groups of them."""


def steps_of(config: SupervisorConfig) -> tuple[Escalation, ...]:
    """The steps in their order."""
    return tuple(sorted(config.alerts.escalation, key=lambda each: each.after_minutes))


def times_of(config: SupervisorConfig) -> tuple[timedelta, ...]:
    """After how long each of them is taken."""
    return tuple(timedelta(minutes=each.after_minutes) for each in steps_of(config))


def calls(config: SupervisorConfig, before: Alert, after: Alert) -> Iterator[Message]:
    """What follows on the steps that were just taken: a mention in the thread of the alert, a post in each channel.

    Several that came due at the same time reach everybody once."""
    if not config.slack.enabled:
        return
    step = after.escalated
    taken = [who for each in steps_of(config)[before.escalated : step] for who in each.to]
    people = list(dict.fromkeys(who for who in taken if not who.startswith(CHANNELS)))
    home = config.slack.alert_channel or config.slack.fallback_channel
    if home and (people or home in taken):
        yield tidings.call_below(after, step, people, broadcast=config.alerts.broadcast or home in taken)
    yield from (tidings.call_in(after, step, channel) for channel in _channels(taken) if channel != home)


def _channels(taken: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(who for who in taken if who.startswith(CHANNELS)))
