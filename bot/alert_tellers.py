"""The commands about alerts: `alerts` shows those there are; `mute` and `unmute` keep those about workers quiet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from sqlalchemy import Connection

from bot.alert_rows import told_of
from bot.alerts import DOOR
from bot.informing import Question, Tell, saying
from bot.intake.dealing import Dealt
from bot.outgoing import everybody, failure
from bot.pools import quick
from bot.views import alerts as views
from bot.views.alert import Told
from bot.views.told import Content
from bot.views.who import who
from supervisor_core.desk.alerts import Alerts, Request
from supervisor_core.domain.alerts import SHOWN
from supervisor_core.domain.durations import parse_duration
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.flips import Uptime
from supervisor_core.domain.suppressions import EVERYTHING
from supervisor_core.domain.targets import ALL
from supervisor_core.ledger import alerts as rows
from supervisor_core.ledger import uptimes
from supervisor_core.ledger.store import Ledger


class AlertTellers:
    """What is told of alerts, and done about them by typed commands. `channel`: where everybody hears of a mute;
    `workers`: those there are."""

    def __init__(self, ledger: Ledger, alerts: Alerts, channel: str, workers: Collection[str] = ()) -> None:
        self._ledger = ledger
        self._alerts = alerts
        self._channel = channel
        self._workers = workers

    def tellers(self) -> Mapping[str, Tell]:
        """Who answers which command."""
        return {
            "alerts": saying(self._listed),
            "mute": self._mute,
            "unmute": self._unmute,
        }

    async def _listed(self, question: Question) -> Content:
        now = question.asked.at

        def look(connection: Connection) -> tuple[list[Told], int, dict[str, tuple[Uptime, ...]]]:
            found = sorted(rows.in_states(connection, SHOWN), key=lambda each: each.parent_id is not None)
            told = [told_of(connection, alert.alert_id, now) for alert in found[: views.SHOWN]]
            worked = uptimes.of_workers(connection, self._ledger.supervisor_id, self._workers, now)
            return [each for each in told if each is not None], len(found), worked

        found, count, worked = await quick(self._ledger.read, look)
        return views.listed(found, await quick(self._alerts.muted), count, worked)

    async def _mute(self, question: Question) -> Dealt:
        command, request = question.command, _request(question)
        seconds = int(command.params["seconds"])
        try:
            made = await quick(self._alerts.mute, command.workers, seconds, request)
        except SupervisorError as error:
            return failure(question.asked, error)
        named = any(parse_duration(word) is not None for word in question.asked.text.split())
        return everybody(question.asked, views.muted(made, said=named), self._channel, " muting")

    async def _unmute(self, question: Question) -> Dealt:
        command = question.command
        try:
            unmute = partial(self._alerts.unmute, everything=command.target == ALL)
            ended = await quick(unmute, command.workers, _request(question))
            still = (await quick(self._alerts.muted)).get(EVERYTHING.id)
        except SupervisorError as error:
            return failure(question.asked, error)
        content = views.unmuted(ended, command.workers, who(question.issuer), still)
        return everybody(question.asked, content, self._channel if ended else "", " muting")


def _request(question: Question) -> Request:
    reason = str(question.command.params.get("reason") or "")
    return Request(question.issuer, DOOR, question.asked.task_id, reason)
