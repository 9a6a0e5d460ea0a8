"""When Slack was last heard of, kept over the end of the program; and the notices of what is wrong with the link."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection

from bot.views.cards.configuration import unknown_ids
from bot.views.cards.notices import connection_gap_notice, other_connection_notice
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.common.times import from_text, to_text
from supervisor_core.host.files import read_json, write_json
from supervisor_core.storage import outbox
from supervisor_core.storage.steps import Message, record
from supervisor_core.workers.conditions.rules import LINK, Condition, Target

NOTICES_FILE = "slack_heard.json"

SAVE_SECONDS = 10.0
"""How often it is noted that Slack is heard: a crash makes the gap look longer by at most so much."""

SHORTEST_GAP = timedelta(seconds=4)
"""A shorter gap is no more than a reconnect; whoever gave a command in it was told by Slack, and is still there."""

MERGE_WITHIN = timedelta(minutes=10)
"""A gap that follows the last one so soon is added to its notice: a network that flaps fills no channel."""


def save_last_heard(state_dir: Path, moment: datetime, *, left: bool = False) -> None:
    """Keep when Slack was last heard of, and whether the connection was closed after that."""
    write_json(state_dir / NOTICES_FILE, {"heard_at": to_text(moment), "left": left})


def closed_cleanly(state_dir: Path) -> bool:
    """Whether the earlier run closed its connection: after a crash Slack may go on counting it for hours."""
    document = read_json(state_dir / NOTICES_FILE, tolerant=True)
    return isinstance(document, dict) and document.get("left") is True


def load_last_heard(state_dir: Path) -> datetime | None:
    """When an earlier run last heard Slack; None where there was none, or where it can't be known."""
    document = read_json(state_dir / NOTICES_FILE, tolerant=True)
    try:
        return from_text(str(document["heard_at"])) if isinstance(document, dict) else None
    except (KeyError, ValueError):
        return None


def notify_gap(
    connection: Connection, channel: str, host: str, since: datetime, until: datetime, *, away: bool
) -> None:
    """Order the notice that nothing was heard: one that is new, or the last one again where that is not long ago. It is
    kept among the alerts as one that is over, which nobody is told of twice."""
    subject, gaps = f"deaf {to_text(since)}", [(since, until)]
    found = outbox.newest(connection, NOTICE, "deaf ")
    if found is not None and bool(found[1].get("away")) is away:
        earlier = [(from_text(begun), from_text(ended)) for begun, ended in found[1]["gaps"]]
        if since - earlier[-1][1] < MERGE_WITHIN:
            subject, gaps = found[0], [*earlier, *gaps]
    words = "no program heard Slack" if away else "the link to Slack was cut, and nothing was heard"
    alerts.record_past_alert(connection, host, Target(LINK, host), Condition.DEAF, words, since, until)
    content = connection_gap_notice(host, gaps, away=away)
    kept = [[to_text(begun), to_text(ended)] for begun, ended in gaps]
    _order(connection, Message(NOTICE, subject, {"channel": channel, "gaps": kept, "away": away, "content": content}))


def notify_other_connections(connection: Connection, channel: str, reason: str) -> None:
    """Order the notice that somebody else uses our token, once a day."""
    subject = f"others {datetime.now(UTC):%Y-%m-%d}"
    if outbox.newest(connection, NOTICE, subject) is None:
        _order(connection, Message(NOTICE, subject, {"channel": channel, "content": other_connection_notice(reason)}))


def notify_unknown_ids(connection: Connection, channel: str, host: str, troubles: Sequence[str]) -> None:
    """Order the notice that the configuration names whom Slack does not know, once a day."""
    subject = f"unknown {datetime.now(UTC):%Y-%m-%d}"
    if outbox.newest(connection, NOTICE, subject) is None:
        _order(connection, Message(NOTICE, subject, {"channel": channel, "content": unknown_ids(host, troubles)}))


def _order(connection: Connection, message: Message) -> None:
    record(connection, "", None, (message,), datetime.now(UTC))
