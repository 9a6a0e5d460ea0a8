"""Actions on alerts in Slack: acknowledge and snooze by button, `alerts`, `mute` and `unmute` by command.

A repeated press changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection

from bot.access.checks import NOBODY, AccessChecks
from bot.inbound.dispatcher import Response
from bot.outbound.content import alert_details
from bot.outbound.messages import announcement, failure, respond, tell
from bot.pools import quick
from bot.requests.commands import Query, QueryHandler, announcement_channel, refusal_entry
from bot.requests.request import Request
from bot.views.answers import alerts as views
from bot.views.blocks import Content
from bot.views.buttons import ListPage, list_page, page_number
from bot.views.text import escape, mention
from supervisor_core.alerts import flips as uptimes
from supervisor_core.alerts import rows
from supervisor_core.alerts.actions import AlertOver, AlertRequest, AlertService, NoSuchAlert
from supervisor_core.alerts.grouping.rules import STORM, as_people_count
from supervisor_core.alerts.rules import SHOWN
from supervisor_core.alerts.suppression.rows import EVERYTHING
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, TargetRule
from supervisor_core.commands.targets import ALL
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.times import parse_duration
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage.store import Ledger

DOOR = "slack"

RECENTLY, RECOVERED = timedelta(hours=24), 3
"""Recovered alerts that are named where none is open: how old they may be, and how many."""

CHOICES: Mapping[str, CommandDefinition] = {
    name: CommandDefinition(name, summary, target=TargetRule.WORKERS, risk=Risk.CHANGES, right=Right.OPERATOR)
    for name, summary in (("acknowledge", "Acknowledge an alert."), ("snooze", "Silence an alert for an hour."))
}
"""Both are for operators, as `mute` is."""


class AlertActions:
    """Handles the buttons of alerts. The alert's message shows the result to all, a refusal only to the person."""

    def __init__(self, alerts: AlertService, access: AccessChecks) -> None:
        self._alerts = alerts
        self._access = access

    async def handle(self, request: Request) -> Response:
        """Handle a press, whose text is the action and the alert's id; repeated after a crash, it has the same
        result."""
        action, _, alert_id = request.text.partition(" ")
        definition = CHOICES[action]
        try:
            alert = await quick(self._alerts.find, alert_id)
            workers = (alert.target.worker,) if alert.target.worker else ()
            command = Command(action, alert.target.id, workers)
            person, refused = await self._access.of_command(request, definition, command)
            if person is None or refused is not None:
                refused = refused or NOBODY
                about = {"command": action, "alert_id": alert.alert_id}
                entry = refusal_entry(request, None, refused, alert.target.id, None, about)
                return Response(
                    replace(entry, target_type=alert.target.kind), tell(request, f":no_entry: {refused.words}").messages
                )
            act = self._alerts.snooze if action == "snooze" else self._alerts.acknowledge
            await quick(act, alert_id, AlertRequest(Issuer(request.actor, person.name), DOOR, request.task_id))
        except (NoSuchAlert, AlertOver) as error:
            return tell(request, f":white_check_mark: {escape(error.message)}")
        except SupervisorError as error:
            return failure(request, error)
        return Response()


class AlertCommands:
    def __init__(self, config: SupervisorConfig, ledger: Ledger, alerts: AlertService) -> None:
        self._ledger = ledger
        self._alerts = alerts
        self._channel = announcement_channel(config)
        self._workers = tuple(config.workers)

    def handlers(self) -> Mapping[str, QueryHandler]:
        return {"alerts": self._list, "mute": self._mute, "unmute": self._unmute}

    async def _list(self, query: Query) -> Response:
        now = query.request.at

        def look(connection: Connection) -> Content:
            shown_alerts = rows.in_states(connection, SHOWN)
            counted = as_people_count(shown_alerts)
            digests = [alert for alert in shown_alerts if alert.target.kind == STORM]
            found = [*digests, *sorted(counted, key=lambda alert: alert.parent_id is not None)]
            part = list_page(found, views.SHOWN, page_number(query.request.page))
            details = [alert_details(connection, alert.alert_id, now) for alert in part.items]
            worked = uptimes.uptimes_of_workers(connection, self._ledger.supervisor_id, self._workers, now)
            shown = ListPage([each for each in details if each], part.number, part.pages, part.first)
            lately = rows.recovered_since(connection, self._ledger.supervisor_id, now - RECENTLY, RECOVERED)
            return views.open_alerts(
                shown, len(counted), muted, now, nonce=query.request.nonce, worked=worked, recovered=lately
            )

        muted = await quick(self._alerts.muted)
        return respond(query.request, await quick(self._ledger.read, look))

    async def _mute(self, query: Query) -> Response:
        command, alert_request = query.command, _alert_request(query)
        seconds = int(command.params["seconds"])
        try:
            made = await quick(self._alerts.mute, command.workers, seconds, alert_request)
        except SupervisorError as error:
            return failure(query.request, error)
        named = any(parse_duration(word) is not None for word in query.request.text.split())
        content = views.mute_answer(made, command.target, query.request.at, said=named)
        return announcement(query.request, content, self._channel, " muting")

    async def _unmute(self, query: Query) -> Response:
        command = query.command
        try:
            unmute = partial(self._alerts.unmute, everything=command.target == ALL)
            ended = await quick(unmute, command.workers, _alert_request(query))
            still = (await quick(self._alerts.muted)).get(EVERYTHING.id)
        except SupervisorError as error:
            return failure(query.request, error)
        content = views.unmute_answer(ended, command.workers, mention(query.issuer), query.request.at, still)
        return announcement(query.request, content, self._channel if ended else "", " muting")


def _alert_request(query: Query) -> AlertRequest:
    reason = str(query.command.params.get("reason") or "")
    return AlertRequest(query.issuer, DOOR, query.request.task_id, reason)
