"""Slack's errors: temporary ones, those about one call, and those about the app; and a notice to admins about a
channel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from aiohttp import ClientConnectorError, ClientResponseError
from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.views.cards.configuration import unreachable_channel
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.common.errors import describe
from supervisor_core.config.slack_settings import SlackSettings
from supervisor_core.storage import outbox
from supervisor_core.storage.steps import Message, record

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

# Said with status 200, and yet nothing about what was asked.
PASSING = frozenset(
    {
        "fatal_error",
        "internal_error",
        "ratelimited",
        "rate_limited",
        "request_timeout",
        "service_unavailable",
        "team_added_to_org",
    }
)

# What no waiting mends: somebody must change something at Slack or in our environment.
FATAL = frozenset(
    {
        "account_inactive",
        "app_not_installed",
        "forbidden_team",
        "invalid_auth",
        "missing_scope",
        "no_permission",
        "not_allowed_token_type",
        "not_authed",
        "socket_mode_not_enabled",
        "team_access_not_granted",
        "token_expired",
        "token_revoked",
        "user_removed_from_team",
    }
)

# The original is gone, or can't be edited any more: a new post takes its place.
LOST = frozenset(
    {
        "cant_update_message",
        "channel_not_found",
        "edit_window_closed",
        "is_archived",
        "is_inactive",
        "message_not_found",
        "not_in_channel",
    }
)
# The bot can't post there.
SHUT_OUT = frozenset(
    {
        "cannot_reply_to_message",
        "channel_not_found",
        "is_archived",
        "messages_tab_disabled",
        "not_in_channel",
        "restricted_action",
        "restricted_action_non_threadable_channel",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "thread_not_found",
    }
)
# Errors about files alone: other messages can still be sent.
OF_UPLOADS = frozenset({"missing_scope", "no_permission"})
# Slack refuses the content; plain text may be taken all the same.
MALFORMED = frozenset(
    {
        "invalid_attachments",
        "invalid_blocks",
        "invalid_blocks_format",
        "metadata_too_large",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "too_many_attachments",
    }
)

SHORTEST_WAIT_SECONDS = 1.0
"""The shortest wait after a 429, whatever it asks for."""

PATIENT_SECONDS = 30.0
"""The wait after a 429 without a valid Retry-After."""

LONGEST_WAIT_SECONDS = 60.0
"""Whatever a 429 says: after so long the method is tried again, and Slack may repeat itself."""


def failure_text(error: Exception) -> str:
    """The reason why a call failed, for people; it contains nothing secret of the call."""
    if isinstance(error, SlackApiError):
        return f"it responds {error_code(error)}"
    if isinstance(error, ClientConnectorError):
        return f"no connection to {error.host}:{error.port} ({error.os_error.strerror or error.os_error})"
    if isinstance(error, ClientResponseError):  # its own words hold the address, and that holds a ticket
        return f"it responds with HTTP {error.status}"
    if isinstance(error, TimeoutError):
        return "no response in time"
    return describe(error)


def error_code(error: SlackApiError) -> str:
    """Return Slack's error code, else the HTTP status."""
    data = getattr(error.response, "data", None)
    word = data.get("error") if isinstance(data, dict) else None
    return str(word or f"HTTP {_status(error)}")


def method_of(error: SlackApiError) -> str:
    """Return the called method, such as `chat.update`; empty outside the Web API.

    A response URL ends in a secret, which must not appear in a log.
    """
    before, _, name = str(getattr(error.response, "api_url", "")).rpartition("/")
    return name if before.endswith("/api") else ""


def is_temporary(error: SlackApiError) -> bool:
    """True where the same call may succeed later."""
    return _status(error) >= SERVER_ERROR or retry_after(error) is not None or error_code(error) in PASSING


def retry_after(error: SlackApiError) -> float | None:
    """Return the seconds to wait for that method, at most `LONGEST_WAIT_SECONDS`; None without a rate limit."""
    if _status(error) != TOO_MANY_REQUESTS and error_code(error) not in ("ratelimited", "rate_limited"):
        return None
    value = str(error.response.headers.get("Retry-After", ""))
    try:
        seconds = float(value)
    except ValueError:
        return PATIENT_SECONDS
    if math.isnan(seconds) or seconds < 0:
        return PATIENT_SECONDS
    return min(max(seconds, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)


def _status(error: SlackApiError) -> int:
    """Return the HTTP status: `status_code` of the SDK, or `status` of aiohttp if the SDK couldn't read the response.

    A response that isn't JSON comes from something between Slack and us, whatever its status.
    """
    status = getattr(error.response, "status_code", None)
    return SERVER_ERROR if status is None else int(status)


MOST_ADMINS = 10
"""Admins beyond these hear it from the others."""

OF_A_CHANNEL: Mapping[str, str] = {
    "channel_not_found": "it doesn't exist, or is private and the bot isn't a member",
    "is_archived": "it's archived",
    "not_in_channel": "the bot is no longer a member",
    "restricted_action": "only some people can post there",
    "restricted_action_read_only_channel": "it's read-only",
    "restricted_action_thread_only_channel": "only thread replies are allowed",
}
"""Slack's error codes that are about a channel, with their reasons."""

KEYS = ("alert_channel", "approval_channel", "fallback_channel")


def admins(slack: SlackSettings) -> tuple[str, ...]:
    """The approvers who are named one by one, else the operators who are."""
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
    if not keys or refused not in OF_A_CHANNEL:
        return
    now = datetime.now(UTC)
    for person in admins(slack):
        subject = f"shut out {channel} {now:%Y-%m-%d} {person}"
        if outbox.newest(connection, NOTICE, subject) is None:
            content = unreachable_channel(
                host, channel, refused, OF_A_CHANNEL[refused], keys, slack.fallback_channel, bot
            )
            place = {"channel": person, "user": person, "alone": True}
            record(connection, "", None, (Message(NOTICE, subject, {**place, "content": content}),), now)
