"""What people do about alerts in Slack: Acknowledge and Snooze, whoever presses them, however often, however late."""

from __future__ import annotations

from collections.abc import Mapping

from bot.asked import Attention
from bot.intake.dealing import Dealt
from bot.judging import NOBODY, Judging
from bot.outgoing import whisper
from bot.pools import quick
from bot.views.phrases import said
from bot.views.text import escape
from bot.views.told import words
from supervisor_core.desk.alerts import AlertOver, Alerts, NoSuchAlert, Request
from supervisor_core.domain.alerts import Alert
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.definitions import CommandDefinition, Right, Risk, TargetRule
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.labels import audit_label
from supervisor_core.ledger.steps import Message

DOOR = "slack"

CHOICES: Mapping[str, CommandDefinition] = {
    name: CommandDefinition(name, summary, target=TargetRule.WORKERS, risk=Risk.CHANGES, right=Right.OPERATOR)
    for name, summary in (("acknowledge", "You look after an alert."), ("snooze", "An alert is quiet for an hour."))
}
"""Both are for operators, as `mute` is."""


class Attending:
    """Deals with the buttons of alerts. What counts, the alert's message shows to all; a refusal is told alone."""

    def __init__(self, alerts: Alerts, judging: Judging) -> None:
        self._alerts = alerts
        self._judging = judging

    async def deal(self, attention: Attention) -> Dealt:
        """Do it, or say why not; done again after a crash, it comes to the same."""
        asked, definition = attention.asked, CHOICES[attention.choice]
        try:
            alert = await quick(self._alerts.find, attention.alert_id)
            workers = (alert.target.worker,) if alert.target.worker else ()
            command = Command(attention.choice, alert.target.id, workers)
            person, refused = await self._judging.of_command(asked, definition, command)
            if person is None or refused is not None:
                why = refused or NOBODY
                return Dealt(
                    _refused(attention, alert, why.plain, why.missing), _told(attention, f":no_entry: {why.words}")
                )
            request = Request(Issuer(asked.actor, person.name), DOOR, asked.task_id)
            await quick(self._do, attention, request)
        except (NoSuchAlert, AlertOver) as error:
            return Dealt(messages=_told(attention, f":white_check_mark: {escape(error.message)}"))
        except SupervisorError as error:
            return Dealt(messages=_told(attention, f":warning: {said(error)}"))
        return Dealt()

    def _do(self, attention: Attention, request: Request) -> Alert:
        """In a thread: the ledger may have to wait for another program."""
        if attention.choice == "snooze":
            return self._alerts.snooze(attention.alert_id, request)
        return self._alerts.acknowledge(attention.alert_id, request)


def _told(attention: Attention, text: str) -> tuple[Message, ...]:
    return (whisper(attention.asked, words(text)),)


def _refused(attention: Attention, alert: Alert, why: str, missing: str) -> AuditEntry:
    asked = attention.asked
    return AuditEntry(
        actor=asked.actor,
        action="REFUSED",
        target_id=alert.target.id,
        target_type=alert.target.kind,
        outcome="failure",
        label=audit_label("", asked.actor, None),
        task_id=asked.task_id,
        details={
            "command": attention.choice,
            "alert_id": alert.alert_id,
            "error": why,
            "missing": missing,
            "door": DOOR,
        },
    )
