"""The bot's own identity in the workspace, asked for once at the start."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.reconnection import SlackRefusedError, token_refused
from bot.outbound.slack_errors import ErrorKind, explain, failure_text, kind_of, retry_after
from supervisor_core.common.service import Pulse, wait_until

RETRY_SECONDS = 2.0

MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>")

ORG_WIDE = "The app is installed for a whole Enterprise organization, and the supervisor serves one workspace"
"""Rights such as "every full member" are about one workspace. With an organization's token, Slack names none."""

IN_THE_WORKSPACE = (
    "Create the app in the workspace instead: on https://api.slack.com/apps, choose the workspace, not the "
    "organization. Install it there and use its tokens."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """The bot in this workspace, as `auth.test` describes it."""

    team_id: str
    user_id: str
    bot_id: str
    name: str
    team: str
    url: str = ""
    """The address of the workspace."""

    def is_meant(self, event: Mapping[str, Any]) -> bool:
        """False for an event about somebody else: another person who joined a channel, or an `app_mention` whose text
        doesn't mention the bot, as Slack was seen to send for thread replies. A text that begins with a mention of
        somebody else is for them."""
        if event.get("type") == "member_joined_channel":
            return event.get("user") == self.user_id
        if event.get("type") != "app_mention" or str(event.get("channel")).startswith("D"):
            return True
        text = str(event.get("text") or "")
        first = MENTION.match(text.lstrip())
        return self.user_id in MENTION.findall(text) and (first is None or first[1] == self.user_id)


async def find_identity(
    client: AsyncWebClient, stopping: asyncio.Event, pulse: Pulse, report: Callable[[str], None]
) -> Identity | None:
    """Ask Slack until it answers; None if the stop came first. `report` is called with the reason for a delay."""
    reported = ""
    while not stopping.is_set():
        pulse.beat()
        wait = RETRY_SECONDS
        try:
            answer = await client.auth_test()
            if is_org_wide(answer.data if isinstance(answer.data, dict) else {}):
                raise SlackRefusedError(f"{ORG_WIDE}.", remedy=IN_THE_WORKSPACE)
            return Identity(
                team_id=str(answer["team_id"]),
                user_id=str(answer["user_id"]),
                bot_id=str(answer.get("bot_id") or ""),
                name=str(answer.get("user") or "supervisor"),
                team=str(answer.get("team") or answer["team_id"]),
                url=str(answer.get("url") or ""),
            )
        except SlackApiError as error:
            if kind_of(error) is ErrorKind.PERMISSION:
                raise token_refused("SLACK_BOT_TOKEN", explain(error)) from None
            problem = f"Slack responds {explain(error)}"
            wait = max(wait, retry_after(error) or 0.0)
        except (ClientError, OSError, TimeoutError) as error:
            problem = f"Slack can't be reached: {failure_text(error)}"
        report(problem)
        if reported != problem:  # logged once while it lasts
            reported = problem
            log.warning("%s; trying again until it answers", problem)
        pulse.beat(within=wait)
        await wait_until(None, stopping, wait)
    return None


def is_org_wide(answer: Mapping[str, object]) -> bool:
    """True where `auth.test` answers for an app that is installed for a whole Enterprise organization."""
    return answer.get("is_enterprise_install") in (True, "true")
