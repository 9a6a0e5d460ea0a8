"""Saying no while the ledger can't be written: whoever asked is told at once, and nothing is kept for later."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError

from bot.views.told import Content, words
from supervisor_core.domain.errors import LedgerUnavailable, SupervisorError

log = logging.getLogger(__name__)


class Voice(Protocol):
    """What is used of the speaker."""

    async def answer(self, response_url: str, content: Content, *, replace: bool) -> bool:
        """By the address that came with a request; False where that has run out."""

    async def whisper(self, channel: str, user: str, thread_ts: str | None, content: Content) -> None:
        """To one person alone, in a channel."""


class Refusing:
    """Tells people that their request isn't taken."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice

    async def refuse(
        self, kind: str, payload: Mapping[str, Any], error: SupervisorError
    ) -> tuple[bool, dict[str, Any] | None]:
        """Whether somebody was told, so that Slack needn't bring it again; and what the acknowledgement says."""
        why = error.short if isinstance(error, LedgerUnavailable) else error.message
        content = words(
            f":warning: *Not accepted:* {why}. Nothing was changed. Try again once that is fixed; `supervisor doctor` "
            "on the host says more."
        )
        if kind == "slash_commands":
            return True, {"response_type": "ephemeral", **content}
        try:
            return await self._told(payload, content), None
        except (ClientError, OSError, TimeoutError, SlackApiError) as problem:
            log.warning("a request that can't be kept could not be refused either: %s", problem)
            return False, None

    async def _told(self, payload: Mapping[str, Any], content: Content) -> bool:
        """The press of a button, or a message to the bot. What nobody waits for is left to come again."""
        if payload.get("type") == "block_actions" and payload.get("response_url"):
            return await self._voice.answer(str(payload["response_url"]), content, replace=False)
        event = payload.get("event")
        if isinstance(event, dict) and _is_for_us(event):
            await self._voice.whisper(str(event["channel"]), str(event["user"]), event.get("thread_ts"), content)
            return True
        return False


def _is_for_us(event: Mapping[str, Any]) -> bool:
    """A person's mention, or their direct message."""
    direct = event.get("type") == "message" and event.get("channel_type") == "im" and not event.get("subtype")
    return bool((event.get("type") == "app_mention" or direct) and event.get("user") and not event.get("bot_id"))
