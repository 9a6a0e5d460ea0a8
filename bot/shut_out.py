"""A word to the admins, once for each channel and day: a channel that the configuration names takes nothing from us."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import Connection

from bot.views.shut_out import shut_out
from supervisor_core.config.chat import Slack
from supervisor_core.ledger import outbox
from supervisor_core.ledger.steps import Message, record
from supervisor_core.ledger.tidings import NOTICE

MOST_ADMINS = 10
"""Who has more of them has somebody who tells the others."""

OF_A_CHANNEL: Mapping[str, str] = {
    "channel_not_found": "it is not there, or is private and the bot is no member of it",
    "is_archived": "it is archived",
    "not_in_channel": "the bot is no member of it any more",
    "restricted_action": "only some people may post in it",
    "restricted_action_read_only_channel": "it is read-only",
    "restricted_action_thread_only_channel": "it takes nothing but replies in threads",
}
"""What Slack calls it, where it is about the channel and not about one message."""

KEYS = ("alert_channel", "approval_channel", "fallback_channel")


def admins(slack: Slack) -> tuple[str, ...]:
    """Who can do something about it: the approvers who are named one by one, else the operators who are."""
    for listed in (slack.access.approvers, slack.access.operators):
        people = tuple(dict.fromkeys(each for each in listed if each.startswith(("U", "W"))))
        if people:
            return people[:MOST_ADMINS]
    return ()


def tell_shut_out(connection: Connection, channel: str, refused: str, slack: Slack, host: str, bot: str) -> None:
    """Order a direct message to each of them, where nobody has told them today. Another channel than those that the
    configuration names is the affair of whoever gave a command there, and they hear of it on its card."""
    keys = [key for key in KEYS if getattr(slack, key) == channel]
    if not keys or refused not in OF_A_CHANNEL:
        return
    now = datetime.now(UTC)
    for person in admins(slack):
        subject = f"shut out {channel} {now:%Y-%m-%d} {person}"
        if outbox.newest(connection, NOTICE, subject) is None:
            content = shut_out(host, channel, refused, OF_A_CHANNEL[refused], keys, slack.fallback_channel, bot)
            place = {"channel": person, "user": person, "alone": True}
            record(connection, "", None, (Message(NOTICE, subject, {**place, "content": content}),), now)
