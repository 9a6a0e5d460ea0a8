"""Slack's errors as the SDK raises them: their kind, how long to wait, and what to tell people."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from aiohttp import ClientConnectorError, ClientHttpProxyError, ClientProxyConnectionError, ClientResponseError
from slack_sdk.errors import SlackApiError

from supervisor_core.common.errors import describe
from supervisor_core.host.network import certificate_problem

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500


class ErrorKind(StrEnum):
    """The kind of a refusal, by what can be done about it."""

    RETRY = "retry"
    """The same call may succeed later."""
    RATE_LIMIT = "rate limit"
    """The same, after the time that Slack asks for."""
    PERMISSION = "permission or scope"
    """Somebody must change something at Slack or in our environment."""
    GONE = "gone"
    """The channel, thread, person or message can't be written to: another place or a new message may do."""
    OTHER = "other"
    """Usually the content: plain text may be accepted."""


_CODES: Mapping[ErrorKind, str] = {
    ErrorKind.RETRY: """external_channel_migrating fatal_error internal_error message_limit_exceeded
        org_login_required request_timeout service_unavailable team_added_to_org update_failed""",
    ErrorKind.PERMISSION: """account_inactive app_not_installed forbidden_team invalid_auth missing_scope
        no_permission not_allowed_token_type not_authed socket_mode_not_enabled team_access_not_granted
        token_expired token_revoked user_removed_from_team""",
    ErrorKind.GONE: """app_access_restricted block_mismatch cannot_reply_to_message cant_update_message
        channel_not_found edit_window_closed ekm_access_denied invalid_channel invalid_user_combination is_archived
        is_inactive message_not_found messages_tab_disabled not_in_channel posting_to_channel_denied
        restricted_action restricted_action_non_threadable_channel restricted_action_read_only_channel
        restricted_action_thread_locked restricted_action_thread_only_channel thread_not_found user_disabled
        user_not_found user_not_in_channel user_not_visible""",
}
_KINDS = {code: kind for kind, codes in _CODES.items() for code in codes.split()}

LONGEST_DETAILS = 500  # characters of what Slack says about a refusal

SHORTEST_WAIT_SECONDS = 1.0
"""The shortest wait after a 429, whatever it asks for."""

PATIENT_SECONDS = 30.0
"""The wait after a 429 without a valid Retry-After."""

LONGEST_WAIT_SECONDS = 60.0
"""The longest wait after a 429, whatever it asks for. Then the method is tried again."""


def failure_text(error: Exception) -> str:
    """The reason why a call failed, for people; it contains no secret."""
    if isinstance(error, SlackApiError):
        return f"it responds {explain(error)}"
    if rejected := certificate_problem(error):
        return rejected
    if isinstance(error, ClientHttpProxyError):
        return f"the proxy responds with HTTP {error.status}"
    if isinstance(error, ClientProxyConnectionError):
        return f"no connection to the proxy {error.host}:{error.port} ({_system_text(error.os_error)})"
    if isinstance(error, ClientConnectorError):
        return f"no connection to {error.host}:{error.port} ({_system_text(error.os_error)})"
    if isinstance(error, ClientResponseError):  # its text contains the URL with a ticket
        return f"it responds with HTTP {error.status}"
    if isinstance(error, TimeoutError):
        return "no response in time"
    return describe(error)


def _system_text(error: OSError) -> str:
    """The system's text. That of asyncio repeats the address; an unknown hostname has a negative number."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def explain(error: SlackApiError) -> str:
    """Slack's error code with the details that Slack gives: the invalid part of a message, or the missing scope."""
    details = "; ".join(dict.fromkeys(_details(error)))
    return f"{error_code(error)}: {details[:LONGEST_DETAILS]}" if details else error_code(error)


_POINTER = re.compile(r"\s*\[json-pointer:([^\]]*)\]")


def _details(error: SlackApiError) -> Iterator[str]:
    data = _data(error)
    metadata = data.get("response_metadata")
    said = [*_texts(metadata.get("messages") if isinstance(metadata, dict) else None), *_texts(data.get("errors"))]
    for each in said:
        yield " ".join(_POINTER.sub(r" at \1", each.removeprefix("[ERROR]")).split())
    for key, words in (("needed", "needs"), ("provided", "the token has"), ("warning", "warning:")):
        if isinstance(value := data.get(key), str) and value:
            yield f"{words} {value}"


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _data(error: SlackApiError) -> Mapping[str, Any]:
    data = getattr(error.response, "data", None)
    return data if isinstance(data, dict) else {}


def error_code(error: SlackApiError) -> str:
    """Return Slack's error code, else the HTTP status."""
    return str(_data(error).get("error") or f"HTTP {_status(error)}")


def kind_of(error: SlackApiError) -> ErrorKind:
    if retry_after(error) is not None:
        return ErrorKind.RATE_LIMIT
    if _status(error) >= SERVER_ERROR:
        return ErrorKind.RETRY
    return _KINDS.get(error_code(error), ErrorKind.OTHER)


def is_temporary(error: SlackApiError) -> bool:
    """True where the same call may succeed later."""
    return kind_of(error) in (ErrorKind.RETRY, ErrorKind.RATE_LIMIT)


def method_of(error: SlackApiError) -> str:
    """Return the called method, such as `chat.update`; empty outside the Web API.

    A response URL ends in a secret, which must not appear in a log.
    """
    before, _, name = str(getattr(error.response, "api_url", "")).rpartition("/")
    return name if before.endswith("/api") else ""


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
