"""What people do about alerts in Slack: Acknowledge and Snooze, whoever presses them, however often, however late.

The commands about alerts: `alerts` shows those there are; `mute` and `unmute` keep those about workers quiet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from sqlalchemy import Connection

from bot.access.checks import NOBODY, AccessChecks
from bot.inbound.dispatcher import Response
from bot.outbound.content import told_of
from bot.outbound.messages import announcement, failure, whisper
from bot.pools import quick
from bot.requests.commands import Query, QueryHandler, reply_with
from bot.requests.request import AlertAction
from bot.views.answers import alerts as views
from bot.views.blocks import Content, text_message
from bot.views.cards.alert import AlertDetails
from bot.views.text import error_text, escape, mention
from supervisor_core.alerts import flips as uptimes
from supervisor_core.alerts import rows
from supervisor_core.alerts.actions import AlertOver, AlertRequest, AlertService, NoSuchAlert
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.rules import SHOWN, Alert
from supervisor_core.alerts.suppression.rows import EVERYTHING
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, TargetRule
from supervisor_core.commands.labels import audit_label
from supervisor_core.commands.targets import ALL
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.times import parse_duration
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger

DOOR = "slack"

CHOICES: Mapping[str, CommandDefinition] = {
    name: CommandDefinition(name, summary, target=TargetRule.WORKERS, risk=Risk.CHANGES, right=Right.OPERATOR)
    for name, summary in (("acknowledge", "You look after an alert."), ("snooze", "An alert is quiet for an hour."))
}
"""Both are for operators, as `mute` is."""


class AlertActions:
    """Deals with the buttons of alerts. What counts, the alert's message shows to all; a refusal is told alone."""

    def __init__(self, alerts: AlertService, judging: AccessChecks) -> None:
        self._alerts = alerts
        self._judging = judging

    async def deal(self, attention: AlertAction) -> Response:
        """Do it, or say why not; done again after a crash, it comes to the same."""
        asked, definition = attention.asked, CHOICES[attention.choice]
        try:
            alert = await quick(self._alerts.find, attention.alert_id)
            workers = (alert.target.worker,) if alert.target.worker else ()
            command = Command(attention.choice, alert.target.id, workers)
            person, refused = await self._judging.of_command(asked, definition, command)
            if person is None or refused is not None:
                why = refused or NOBODY
                return Response(
                    _refusal_entry(attention, alert, why.plain, why.missing),
                    _reply(attention, f":no_entry: {why.words}"),
                )
            request = AlertRequest(Issuer(asked.actor, person.name), DOOR, asked.task_id)
            await quick(self._do, attention, request)
        except (NoSuchAlert, AlertOver) as error:
            return Response(messages=_reply(attention, f":white_check_mark: {escape(error.message)}"))
        except SupervisorError as error:
            return Response(messages=_reply(attention, f":warning: {error_text(error)}"))
        return Response()

    def _do(self, attention: AlertAction, request: AlertRequest) -> Alert:
        """In a thread: the ledger may have to wait for another program."""
        if attention.choice == "snooze":
            return self._alerts.snooze(attention.alert_id, request)
        return self._alerts.acknowledge(attention.alert_id, request)


def _reply(attention: AlertAction, text: str) -> tuple[Message, ...]:
    return (whisper(attention.asked, text_message(text)),)


def _refusal_entry(attention: AlertAction, alert: Alert, why: str, missing: str) -> AuditEntry:
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


class AlertCommands:
    """What is told of alerts, and done about them by typed commands. `channel`: where everybody hears of a mute;
    `workers`: those there are."""

    def __init__(self, ledger: Ledger, alerts: AlertService, channel: str, workers: Collection[str] = ()) -> None:
        self._ledger = ledger
        self._alerts = alerts
        self._channel = channel
        self._workers = workers

    def tellers(self) -> Mapping[str, QueryHandler]:
        """Who answers which command."""
        return {
            "alerts": reply_with(self._listed),
            "mute": self._mute,
            "unmute": self._unmute,
        }

    async def _listed(self, question: Query) -> Content:
        now = question.asked.at

        def look(connection: Connection) -> tuple[list[AlertDetails], int, dict[str, tuple[Uptime, ...]]]:
            found = sorted(rows.in_states(connection, SHOWN), key=lambda each: each.parent_id is not None)
            told = [told_of(connection, alert.alert_id, now) for alert in found[: views.SHOWN]]
            worked = uptimes.uptimes_of_workers(connection, self._ledger.supervisor_id, self._workers, now)
            return [each for each in told if each is not None], len(found), worked

        found, count, worked = await quick(self._ledger.read, look)
        return views.open_alerts(found, await quick(self._alerts.muted), count, worked)

    async def _mute(self, question: Query) -> Response:
        command, request = question.command, _alert_request(question)
        seconds = int(command.params["seconds"])
        try:
            made = await quick(self._alerts.mute, command.workers, seconds, request)
        except SupervisorError as error:
            return failure(question.asked, error)
        named = any(parse_duration(word) is not None for word in question.asked.text.split())
        return announcement(question.asked, views.muted(made, said=named), self._channel, " muting")

    async def _unmute(self, question: Query) -> Response:
        command = question.command
        try:
            unmute = partial(self._alerts.unmute, everything=command.target == ALL)
            ended = await quick(unmute, command.workers, _alert_request(question))
            still = (await quick(self._alerts.muted)).get(EVERYTHING.id)
        except SupervisorError as error:
            return failure(question.asked, error)
        content = views.unmuted(ended, command.workers, mention(question.issuer), still)
        return announcement(question.asked, content, self._channel if ended else "", " muting")


def _alert_request(question: Query) -> AlertRequest:
    reason = str(question.command.params.get("reason") or "")
    return AlertRequest(question.issuer, DOOR, question.asked.task_id, reason)
