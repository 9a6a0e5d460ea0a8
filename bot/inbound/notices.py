"""Notices about the connection to Slack: gaps, and unknown ids."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from bot.pools import quick
from bot.views.cards.notices import connection_gap_notice, unknown_ids
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import wait_until
from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.files import read_json, write_json
from supervisor_core.storage import outbox
from supervisor_core.storage.steps import Message, record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import LINK, Condition, Target

NOTICES_FILE = "slack_heard.json"

SAVE_SECONDS = 10.0
"""Interval of storing the last sign of Slack. After a crash the gap looks longer by at most this."""

SHORTEST_GAP = timedelta(seconds=4)
"""A shorter gap is a reconnect, in which Slack itself reports failed commands to people."""

MERGE_WITHIN = timedelta(minutes=10)
"""A gap that follows so soon is added to the last notice, so that a flapping network doesn't fill the channel."""

log = logging.getLogger(__name__)


class ConnectionNotices:
    """Posts notices to the alert channel if there is one; the log has them in any case. Stores when Slack last sent
    something."""

    def __init__(self, ledger: Ledger, config: Callable[[], SupervisorConfig]) -> None:
        self._ledger = ledger
        self._config = config
        self._first_gap = False
        """True if the next gap is the one since the earlier run."""

    async def load(self) -> datetime | None:
        """The last sign of Slack in an earlier run."""
        before = await quick(load_last_heard, self._config().state_dir)
        self._first_gap = before is not None
        return before

    async def save(self, moment: datetime | None) -> None:
        """Store the last sign of Slack."""
        if moment is None:
            return
        try:
            await quick(save_last_heard, self._config().state_dir, moment)
        except OSError as error:
            log.warning("the time of the last message from Slack can't be stored: %s", error)

    async def keep_saving(self, stopping: asyncio.Event, last_heard: Callable[[], datetime | None]) -> None:
        """Save it every few seconds, so that the next run knows the length of the gap."""
        while True:
            ended = await wait_until(None, stopping, SAVE_SECONDS)
            await self.save(last_heard())
            if ended:
                return

    async def report_gap(self, since: datetime, until: datetime) -> None:
        """Post a notice about a gap in the connection."""
        away, self._first_gap = self._first_gap, False
        if until - since < SHORTEST_GAP:
            return
        log.warning("no connection to Slack from %s to %s", to_text(since), to_text(until))
        await self._post(partial(notify_gap, host=self._host, since=since, until=until, away=away))

    async def report_unknown_ids(self, found: Sequence[str]) -> None:
        """Post a notice about configured ids that Slack doesn't know."""
        for each in found:
            log.warning("%s", each)
        if found:
            await self._post(partial(notify_unknown_ids, host=self._host, troubles=found))

    @property
    def _host(self) -> str:
        return self._config().supervisor.id

    async def _post(self, order: Callable[..., None]) -> None:
        slack = self._config().slack
        if channel := slack.alert_channel or slack.fallback_channel:
            try:
                await asyncio.wrap_future(self._ledger.submit(partial(order, channel=channel)))
            except SupervisorError as error:
                log.warning("%s", error)


def save_last_heard(state_dir: Path, moment: datetime) -> None:
    """Store the last sign of Slack."""
    write_json(state_dir / NOTICES_FILE, {"heard_at": to_text(moment)})


def load_last_heard(state_dir: Path) -> datetime | None:
    """The last sign of Slack in an earlier run; None if it's unknown."""
    document = read_json(state_dir / NOTICES_FILE, tolerant=True)
    try:
        return from_text(str(document["heard_at"])) if isinstance(document, dict) else None
    except (KeyError, ValueError):
        return None


def notify_gap(
    connection: Connection, channel: str, host: str, since: datetime, until: datetime, *, away: bool
) -> None:
    """Order the notice about a gap: a new one, or an update of a recent one. It's stored as a closed alert, so that
    nobody is alerted twice."""
    subject, gaps = f"deaf {to_text(since)}", [(since, until)]
    found = outbox.newest(connection, NOTICE, "deaf ")
    if found is not None and bool(found[1].get("away")) is away:
        earlier = [(from_text(begun), from_text(ended)) for begun, ended in found[1]["gaps"]]
        if since - earlier[-1][1] < MERGE_WITHIN:
            subject, gaps = found[0], [*earlier, *gaps]
    words = "the supervisor wasn't running" if away else "the connection to Slack was down"
    alerts.record_past_alert(connection, host, Target(LINK, host), Condition.DEAF, words, since, until)
    content = connection_gap_notice(host, gaps, away=away)
    kept = [[to_text(begun), to_text(ended)] for begun, ended in gaps]
    _order(connection, Message(NOTICE, subject, {"channel": channel, "gaps": kept, "away": away, "content": content}))


def notify_unknown_ids(connection: Connection, channel: str, host: str, troubles: Sequence[str]) -> None:
    """Order the notice about unknown ids in the configuration, once a day."""
    subject = f"unknown {datetime.now(UTC):%Y-%m-%d}"
    if outbox.newest(connection, NOTICE, subject) is None:
        _order(connection, Message(NOTICE, subject, {"channel": channel, "content": unknown_ids(host, troubles)}))


def _order(connection: Connection, message: Message) -> None:
    record(connection, "", None, (message,), datetime.now(UTC))
