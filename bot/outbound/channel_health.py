"""The configured channels that can't be posted to.

A refused post says so first. Slack is asked as well, because a channel may be archived long before something is posted
there, and opened again without a word to the bot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slack_sdk.web.async_client import AsyncWebClient

from bot.doctor.slack_queries import SlackQueries, SlackUnreachableError
from bot.outbound.messages import KEYS
from supervisor_core.common.service import wait_until
from supervisor_core.config.schema import SlackSettings

CHECK_SECONDS, RECHECK_SECONDS = 300.0, 30.0
"""The intervals of asking Slack: usually, and while a channel can't be posted to."""

VISIBLE = frozenset({"is_archived", "is_inactive", "not_in_channel", "channel_not_found", "invalid_channel"})
"""The refusals that Slack's description of a channel shows to be over. Others last until a post succeeds."""


class ChannelHealth:
    """Which of the configured channels refuse posts, with Slack's error code."""

    def __init__(self, client: AsyncWebClient, slack: Callable[[], SlackSettings]) -> None:
        self._client = client
        self._slack = slack
        self._refusals: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """The channels that can't be posted to, with the reason; empty if all can."""
        slack = self._slack()
        sentences = []
        for channel, settings in self._configured().items():
            if code := self._refusals.get(channel):
                reason = f"{', '.join(settings)}: can't post in {channel} ({code})"
                if channel == slack.alert_channel and slack.fallback_channel not in ("", channel):
                    reason += f"; its messages go to {slack.fallback_channel}"
                sentences.append(reason)
        return "; ".join(sentences)

    def record_refusal(self, channel: str, code: str) -> None:
        self._refusals[channel] = code

    def record_post(self, channel: str) -> None:
        self._refusals.pop(channel, None)

    async def watch(self, stopping: asyncio.Event) -> None:
        """Ask Slack about the configured channels again and again."""
        while True:
            try:
                await self._check()
                seconds = RECHECK_SECONDS if self.problem else CHECK_SECONDS
            except SlackUnreachableError:
                seconds = RECHECK_SECONDS
            if await wait_until(None, stopping, seconds):
                return

    async def _check(self) -> None:
        queries = SlackQueries(self._client)
        channels = self._configured()
        self._refusals = {channel: code for channel, code in self._refusals.items() if channel in channels}
        for channel in channels:
            info = await queries.about(self._client.conversations_info, "channel", channel=channel)
            if info.get("error") == "channel_not_found":
                self._refusals[channel] = "channel_not_found"
            elif "error" in info:  # a missing scope says nothing about the channel
                continue
            elif info.get("is_archived"):
                self._refusals[channel] = "is_archived"
            elif not info.get("is_member") and not info.get("is_im"):
                self._refusals[channel] = "not_in_channel"
            elif self._refusals.get(channel) in VISIBLE:
                del self._refusals[channel]

    def _configured(self) -> dict[str, list[str]]:
        """Each channel with the settings that name it."""
        slack, channels = self._slack(), dict[str, list[str]]()
        for key in KEYS:
            if channel := getattr(slack, key):
                channels.setdefault(channel, []).append(f"slack.{key}")
        return channels
