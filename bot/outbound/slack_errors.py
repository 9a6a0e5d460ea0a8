"""Slack's errors as the SDK raises them: their kind, how long to wait, and what to tell people."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import ClientConnectorError, ClientHttpProxyError, ClientProxyConnectionError, ClientResponseError
from slack_sdk.errors import SlackApiError

from bot.outbound.error_kinds import FORBIDDEN, ErrorKind, kind_of_code, meaning_of_code
from supervisor_core.common.errors import describe
from supervisor_core.host.network import certificate_problem

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

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
    """Slack's error code with its meaning and the details that Slack gives: the invalid part of a message, or the
    missing scope."""
    code = error_code(error)
    meaning = meaning_of_code(code)
    details = "; ".join(dict.fromkeys(_details(error)))
    words = f"{code} ({meaning})" if meaning else code
    return f"{words}: {details[:LONGEST_DETAILS]}" if details else words


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
    """The kind of Slack's error."""
    return ErrorKind.TEMPORARY if is_temporary(error) else kind_of_code(error_code(error))


def method_of(error: SlackApiError) -> str:
    """Return the called method, such as `chat.update`; empty outside the Web API.

    A response URL ends in a secret, which must not appear in a log.
    """
    before, _, name = str(getattr(error.response, "api_url", "")).rpartition("/")
    return name if before.endswith("/api") else ""


def is_temporary(error: SlackApiError) -> bool:
    """True where the same call may succeed later."""
    busy = _status(error) >= SERVER_ERROR or retry_after(error) is not None
    return busy or kind_of_code(error_code(error)) is ErrorKind.TEMPORARY


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


def refusal_of_place(error: SlackApiError) -> str:
    """The reason why Slack refuses a place for good; any other error is raised again."""
    if kind_of(error) in FORBIDDEN | {ErrorKind.TEMPORARY, ErrorKind.CONTENT}:
        raise error
    return explain(error)
