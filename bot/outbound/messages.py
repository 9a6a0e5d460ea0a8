"""Messages to Slack as outbox rows: cards, notices, whispers and files.

A reply gets its place when it is sent: the place of the message above it by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from bot.inbound.dispatcher import Response
from bot.requests.request import Request
from bot.views.blocks import Content, text_message
from bot.views.cards.headlines import MOMENT, is_new
from bot.views.cards.notices import unreachable_channel
from bot.views.files import Attachment
from bot.views.text import error_text
from supervisor_core.alerts.messages import CALL, CONFIG, MORNING, NOTICE, PAUSE_FLAG, TAKEOVER, WEEK
from supervisor_core.alerts.rows import ALERT, LINE, REPLY
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.schema import SlackSettings
from supervisor_core.intake.approvals.rows import ASKED
from supervisor_core.intake.schedules.service import TOLD
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.jobs.rows import CARD
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import DETAILS, FILE, PendingMessage
from supervisor_core.storage.steps import Message, record

WHISPER = "whisper"
"""For one person alone; sent once, and never edited."""

HOME = "home"
"""A person's App Home, under their id: published at each order with the current state."""

WELCOME = "welcome"
"""The bot's introduction in a channel, under the channel's id: one row for each, which is never deleted."""

SUBJECT = 255
"""Characters of a subject, as in the table."""

KINDS = (
    *(CARD, ASKED, ALERT, REPLY, LINE, CALL, MORNING, WEEK, CONFIG, PAUSE_FLAG, TAKEOVER),
    *(TOLD, NOTICE, WHISPER, DETAILS, FILE, HOME, WELCOME),
)


class DroppedError(Exception):
    """The message can't be delivered anywhere."""


def answer(request: Request, content: Content) -> Message:
    """A message that only informs: to the requester alone, or in the thread of a mention."""
    if request.direct and request.response_url is None:
        return _directly(request, request.key, content)
    if request.message is None:
        return whisper(request, content, replace=request.replaces)
    place = {"channel": request.channel, "user": request.user, "thread_ts": request.thread or request.message}
    return Message(NOTICE, request.key, {**place, "content": content})


def announcement(request: Request, content: Content, channel: str, about: str) -> Response:
    """A message for everybody in this channel, and for a requester elsewhere; without a channel, for the requester
    alone. `about` tells several messages to one request apart."""
    messages = [] if request.channel == channel else [answer(request, content)]
    if channel:
        messages.append(Message(NOTICE, f"{request.key}{about}", {"channel": channel, "content": content}))
    return Response(messages=tuple(messages))


def whisper(request: Request, content: Content, *, replace: bool = False, about: str = "") -> Message:
    """A message for the requester alone; `about` tells several to one request apart."""
    if request.direct and request.response_url is None:
        return _directly(request, f"{request.key}{about}"[:SUBJECT], content)
    place = {"channel": request.channel, "user": request.user, "thread_ts": request.thread}
    way = {"response_url": request.response_url, "replace": replace}
    return Message(WHISPER, f"{request.key}{about}"[:SUBJECT], {**place, **way, "content": content})


def respond(request: Request, content: Content) -> Response:
    """A response that only informs, where the request was made."""
    return Response(messages=(answer(request, content),))


def tell(request: Request, text: str, *, replace: bool = False) -> Response:
    return Response(messages=(whisper(request, text_message(text), replace=replace),))


def failure(request: Request, error: SupervisorError) -> Response:
    """The error and its remedy, to the requester alone."""
    return tell(request, f":warning: {error_text(error)}")


def _directly(request: Request, subject: str, content: Content) -> Message:
    """An ordinary message in direct messages, which is never posted anywhere else."""
    place = {"channel": request.channel, "user": request.user, "thread_ts": request.thread, "alone": True}
    return Message(NOTICE, subject, {**place, "content": content})


def card_place(request: Request) -> Mapping[str, Any]:
    return {"channel": request.channel, "user": request.user, "thread_ts": request.thread}


def file_to_person(request: Request, file: Attachment, about: str = "") -> Message:
    """A file for the requester alone, in their direct messages; sent once, however often it is ordered. `about` tells
    several files to one request apart.

    Where Slack takes no file (uploads are forbidden, `files:write` is missing), its text is posted as far as it fits,
    and `file.rest` names the place of the whole.
    """
    thread = request.thread if request.direct else None
    place = {"channel": request.channel if request.direct else request.user, "user": request.user, "thread_ts": thread}
    tail = f"/file{about}"
    subject = f"{request.key[: SUBJECT - len(tail)]}{tail}"  # messages of one place differ by their subjects
    return Message(FILE, subject, {**place, "alone": True, **file.as_payload()})


def update_if_queued(
    connection: Connection, supervisor_id: str, now: datetime, *, task_id: str, composed: datetime
) -> None:
    """Update a card of this time a moment after it, if its command still waits: only that card says so."""
    found = jobs.of_task(connection, task_id)
    if len(found) == 1 and found[0].state is JobState.QUEUED and is_new(found, composed):
        left = max(0.0, (found[0].filed_at + MOMENT - now).total_seconds())
        record(connection, supervisor_id, None, (Message(CARD, task_id, None, left),), now)


def with_thread(connection: Connection, message: PendingMessage) -> PendingMessage:
    """Add the channel and thread to the message; none if its parent was never posted."""
    above = message.payload.get("below")
    if not above:
        return message
    place = outbox.reply_thread(connection, str(above["kind"]), str(above["subject"])) or {}
    return replace(message, payload={**message.payload, **place})


def is_orphaned(message: PendingMessage) -> bool:
    """True where the message above it was never posted and won't be."""
    return bool(message.payload.get("below")) and not message.payload.get("channel")


MOST_ADMINS = 10
"""The most admins who are notified."""

KEYS = ("alert_channel", "approval_channel", "fallback_channel")


def admins(slack: SlackSettings) -> tuple[str, ...]:
    """The approvers with an id of their own in the configuration, else such operators."""
    for listed in (slack.access.approvers, slack.access.operators):
        people = tuple(dict.fromkeys(each for each in listed if each.startswith(("U", "W"))))
        if people:
            return people[:MOST_ADMINS]
    return ()


def notify_admins(
    connection: Connection, channel: str, refused: str, slack: SlackSettings, host: str, bot: str
) -> None:
    """Order a direct message to each admin, once a day for each channel that the configuration names. Other channels
    concern only the person who gave a command there: its card tells them."""
    keys = [key for key in KEYS if getattr(slack, key) == channel]
    if not keys:
        return
    now = datetime.now(UTC)
    for person in admins(slack):
        subject = f"shut out {channel} {now:%Y-%m-%d} {person}"
        if outbox.newest(connection, NOTICE, subject) is None:
            content = unreachable_channel(host, channel, refused, keys, slack.fallback_channel, bot)
            place = {"channel": person, "user": person, "alone": True}
            record(connection, "", None, (Message(NOTICE, subject, {**place, "content": content}),), now)
