"""What somebody asked for, the same value whether they typed it, mentioned the bot or pressed a button."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.blockkit import unescape
from supervisor_core.ledger.envelopes import Received

TASK_TAIL = 9
"""Characters of the hash in a task id: enough that two never meet within one second."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and how its sender can be answered."""

    text: str
    user: str
    team: str
    channel: str
    at: datetime
    key: str
    """The envelope in which it came."""
    once: str
    """What makes two requests the same: dealt with again, or asked for again by the same button, it is one command."""
    thread: str | None = None
    """The thread in which it was said, where it was said in one."""
    message: str | None = None
    """The message with which it was said: a mention is answered below it."""
    response_url: str | None = None
    pressed: bool = False

    @property
    def actor(self) -> str:
        """Who asked, as the audit trail writes it."""
        return f"slack:{self.team}/{self.user}"

    @property
    def task_id(self) -> str:
        """The id of the command that it becomes, the same each time that it is dealt with."""
        return f"task_{self.at:%Y%m%d_%H%M%S}_{_digest(self.once)[:TASK_TAIL]}"

    @property
    def nonce(self) -> str:
        """What the buttons of an answer to this carry, so that each of them counts once."""
        return f"{self.at:%Y%m%d%H%M%S}-{_digest(self.once)[:TASK_TAIL]}"


def typed(received: Received) -> Asked:
    """A slash command."""
    payload = received.payload
    return Asked(
        text=unescape(str(payload.get("text") or "")),
        user=str(payload["user_id"]),
        team=str(payload.get("team_id") or ""),
        channel=str(payload["channel_id"]),
        at=received.received_at,
        key=received.key,
        once=received.key,
        response_url=payload.get("response_url"),
    )


def mentioned(received: Received) -> Asked:
    """A message that mentions the bot."""
    event = received.payload["event"]
    return Asked(
        text=unescape(str(event.get("text") or "")),
        user=str(event["user"]),
        team=str(event.get("team") or received.payload.get("team_id") or ""),
        channel=str(event["channel"]),
        at=received.received_at,
        key=received.key,
        once=received.key,
        thread=event.get("thread_ts"),
        message=str(event["ts"]),
    )


def pressed(received: Received, command: str) -> Asked:
    """A press of a button whose value is `NONCE TARGET`: the same button of the same message counts once."""
    payload = received.payload
    user, channel = payload["user"], payload.get("channel") or {}
    container: Mapping[str, Any] = payload.get("container") or {}
    nonce, _, target = str(payload["actions"][0].get("value") or "").partition(" ")
    at = _moment(nonce, received.received_at)
    return Asked(
        text=f"{command} {target}",
        user=str(user["id"]),
        team=str(user.get("team_id") or (payload.get("team") or {}).get("id") or ""),
        channel=str(channel.get("id") or container.get("channel_id") or ""),
        at=at,
        key=received.key,
        once=f"{nonce} {command} {target}",
        thread=container.get("thread_ts"),
        response_url=payload.get("response_url"),
        pressed=True,
    )


def _moment(nonce: str, otherwise: datetime) -> datetime:
    """When the button was shown: part of its commands' ids, so that these stay the same press after press."""
    try:
        shown = datetime.strptime(nonce.partition("-")[0], "%Y%m%d%H%M%S")  # noqa: DTZ007 (given its zone below)
    except ValueError:
        return otherwise
    return shown.replace(tzinfo=otherwise.tzinfo)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
