"""Test alerts: opened and closed at once in the format of a receiver, with its answers. Nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from supervisor_core.alerts.outside.documents import delivery_id, document
from supervisor_core.alerts.outside.formats import call_of
from supervisor_core.alerts.outside.transport import SendResult, SendVerdict, attempt
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import random_id
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.schema import Receiver
from supervisor_core.workers.conditions import Condition, Severity, Target

TARGET = "test"
"""The type of its target, so that a receiver can filter it."""

EXCERPT = 300
"""Bytes of the answer that are shown."""


class ReceiverTrial(NamedTuple):
    """A receiver's answer to the opening of a test alert, or to its closing if the opening was accepted."""

    receiver: Receiver
    answer: SendResult

    @property
    def ok(self) -> bool:
        return self.answer.verdict is SendVerdict.TAKEN


def try_receiver(config: SupervisorConfig, receiver: Receiver) -> ReceiverTrial:
    """Send a test alert and its end. It blocks."""
    return asyncio.run(_try_receiver(config, receiver))


async def _try_receiver(config: SupervisorConfig, receiver: Receiver) -> ReceiverTrial:
    elsewhere, answer = Blocking(1), SendResult(SendVerdict.REFUSED)
    for told in _documents(config.supervisor.id, datetime.now(UTC)):
        call = call_of(told, receiver, datetime.now(UTC))
        answer = await attempt(elsewhere, config.network, call, EXCERPT)
        if answer.verdict is not SendVerdict.TAKEN:
            break
    return ReceiverTrial(receiver, answer)


def _documents(host: str, now: datetime) -> Iterator[dict[str, Any]]:
    alert = Alert(
        random_id(),
        Target(TARGET, host),
        Condition.DEGRADED,
        "This is a test. Nothing is wrong.",
        opened_at=now,
        opened_flip=0,
        state=AlertState.OPEN,
        severity=Severity.WARNING,
        supervisor_id=host,
    )
    over = replace(alert, state=AlertState.CLOSED, closed_at=now, told=alert.condition)
    for each, reason, words in (
        (alert, Reason.FIRST, f"Test alert of {host}. Nothing is wrong."),
        (over, Reason.RESOLVED, f"The test alert of {host} is closed."),
    ):
        delivery = delivery_id(host, f"{TARGET}/{alert.alert_id}/{reason}")
        yield {**document(each, reason, now), "words": words, "delivery": delivery, "card": None}
