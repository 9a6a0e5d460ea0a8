"""Calls to Slack for the checks, each bounded, none after Slack is away; and the remedies that several checks give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.outbound.slack_api import connect_by, web_client
from bot.outbound.slack_errors import explain, failure_text, retry_after
from supervisor_core.config.slack_credentials import SlackCredentials
from supervisor_core.host.network import Network

SETTINGS = "https://api.slack.com/apps → your app"
BOT_TOKEN_PLACE = f"{SETTINGS} → OAuth & Permissions → Bot User OAuth Token"
APP_TOKEN_PLACE = f"{SETTINGS} → Basic Information → App-Level Tokens"
COPY_BOT_TOKEN = f"Copy the token that starts with xoxb- ({BOT_TOKEN_PLACE}) into SLACK_BOT_TOKEN."
COPY_APP_TOKEN = (
    f"Copy the token that starts with xapp- ({APP_TOKEN_PLACE} → its name; or Generate Token and Scopes with "
    "connections:write) into SLACK_APP_TOKEN."
)
NEW_BOT_TOKEN = f"Reinstall the app ({SETTINGS} → Install App). {COPY_BOT_TOKEN}"
NEW_APP_TOKEN = f"Create a new one with the scope connections:write ({APP_TOKEN_PLACE} → Generate Token and Scopes)."
SOCKET_MODE_ON = f"Turn it on: {SETTINGS} → Socket Mode → Enable Socket Mode."
WAIT = "Wait, then run doctor again."
REACH = "Check the network, the proxy (HTTPS_PROXY), SLACK_API_URL, and https://slack-status.com."

CALL_SECONDS = 10.0
AT_ONCE = 5
"""Enough to be quick, and few enough to stay below Slack's limits."""

TEMPORARY = frozenset({"", "fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable"})
TOO_MANY_REQUESTS = 429


class SlackUnreachableError(Exception):
    """Slack doesn't respond as expected; retrying later may help."""

    def __init__(self, message: str, remedy: str = REACH, seconds: float = 0.0) -> None:
        self.remedy = remedy
        self.seconds = seconds
        """For so long Slack asks us not to ask again."""
        super().__init__(message)


class SlackRefusalError(Exception):
    """Slack refuses; `word` is its error code, and the text explains it."""

    def __init__(self, word: str, headers: Mapping[str, str], explanation: str) -> None:
        self.word = word
        self.headers = headers
        super().__init__(explanation)


class SlackQueries:
    """Asks with the bot's token. `away` says why Slack can't be asked at all, as soon as that is known."""

    def __init__(self, client: AsyncWebClient) -> None:
        self.client = client
        self.url = client.base_url
        self.away = ""
        self._room = asyncio.Semaphore(AT_ONCE)

    @classmethod
    def of(cls, credentials: SlackCredentials, network: Network) -> SlackQueries:
        client = web_client(credentials, int(CALL_SECONDS))
        connect_by(network, client)
        return cls(client)

    async def __call__(
        self,
        method: Callable[..., Awaitable[AsyncSlackResponse]],
        **arguments: Any,  # noqa: ANN401 (whatever the method takes)
    ) -> AsyncSlackResponse:
        """The answer; `SlackRefusalError` where Slack refuses, `SlackUnreachableError` where it gives none."""
        async with self._room:
            if self.away:
                raise SlackUnreachableError(self.away)
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    return await method(**arguments)
            except SlackApiError as error:
                word, status, headers = _reason(error)
                if status == TOO_MANY_REQUESTS:  # of this method alone: the others can still be asked
                    words = f"Slack's rate limit asks to wait {headers.get('Retry-After', 'some')} seconds"
                    raise SlackUnreachableError(words, WAIT, retry_after(error) or 0.0) from None
                if word not in TEMPORARY:
                    raise SlackRefusalError(word, headers, explain(error)) from None
                self.away = f"Slack responds {word or f'with status {status} and no error code'}"
            except TimeoutError:
                self.away = f"no response from Slack within {CALL_SECONDS:g} s"
            except (ClientError, OSError) as error:
                self.away = f"Slack can't be reached: {failure_text(error)}"
            raise SlackUnreachableError(self.away)

    async def about(
        self,
        method: Callable[..., Awaitable[AsyncSlackResponse]],
        key: str,
        **arguments: Any,  # noqa: ANN401 (whatever the method takes)
    ) -> Mapping[str, Any]:
        """One part of the answer, or `error` with Slack's code and `reason` with its explanation."""
        try:
            answer: Mapping[str, Any] = (await self(method, **arguments))[key]
        except SlackRefusalError as error:
            return refused(error)
        return answer


def refused(error: SlackRefusalError) -> Mapping[str, Any]:
    return {"error": error.word, "reason": str(error)}


def reason_of(answer: Mapping[str, Any]) -> str:
    """The explanation of a refusal, with the scope that is needed and those that the token has."""
    return str(answer.get("reason") or answer.get("error") or "")


def _reason(error: SlackApiError) -> tuple[str, int, Mapping[str, str]]:
    """Return Slack's error code, the status and the headers; a response that isn't JSON has no code."""
    response: Any = error.response
    data = getattr(response, "data", None)
    word = str(data.get("error") or "") if isinstance(data, dict) else ""
    status: int = getattr(response, "status_code", 0) or getattr(response, "status", 0)
    return word, status, getattr(response, "headers", None) or {}
