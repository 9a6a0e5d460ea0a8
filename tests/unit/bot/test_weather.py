"""What an answer of Slack's means, and what of it may be said."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from slack_sdk.webhook import WebhookResponse

from bot.outbound.slack_errors import ErrorKind, error_code, explain, failure_text, kind_of, method_of, retry_after

ANSWER = "https://hooks.slack.com/commands/T1/123/s3cret"


def refused(word: str, status: int = 200, data: Any = None, **headers: str) -> SlackApiError:
    """The error that the SDK raises for such an answer to `chat.update`."""
    response = AsyncSlackResponse(
        client=AsyncWebClient(),
        http_verb="POST",
        api_url="https://slack.com/api/chat.update",
        req_args={},
        data={"ok": False, "error": word, **(data or {})},
        headers=headers,
        status_code=status,
    )
    return SlackApiError("no", response)  # type: ignore[no-untyped-call]


def unanswered(status: int, **headers: str) -> SlackApiError:
    """The error for somebody's answer that could not be given."""
    response = WebhookResponse(url=ANSWER, status_code=status, body="", headers=headers)
    return SlackApiError("no", response)  # type: ignore[no-untyped-call]


def test_the_address_of_somebody_s_answer_is_no_method_and_is_never_said() -> None:
    error = unanswered(429)
    assert method_of(error) == ""
    assert "s3cret" not in f"{error_code(error)}{failure_text(error)}"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (refused("ratelimited", 429, **{"Retry-After": "7"}), 7.0),
        (refused("ratelimited", 429, **{"Retry-After": "0"}), 1.0),
        (refused("ratelimited", 429, **{"Retry-After": "3600"}), 60.0),
        (refused("ratelimited", 429, **{"Retry-After": "1e400"}), 60.0),
        (refused("ratelimited", 429, **{"Retry-After": "-5"}), 30.0),
        (refused("ratelimited", 429, **{"Retry-After": "nan"}), 30.0),
        (refused("ratelimited", 429, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), 30.0),
        (unanswered(429), 30.0),
        (refused("channel_not_found"), None),
        (refused("fatal_error", 500), None),
    ],
)
def test_slack_is_waited_for_as_long_as_it_asks_and_never_for_an_hour(
    error: SlackApiError, seconds: float | None
) -> None:
    assert retry_after(error) == seconds


def test_every_answer_is_of_one_of_a_few_kinds() -> None:
    for error, kind in (
        (refused("fatal_error"), ErrorKind.RETRY),
        (refused("whatever", 503), ErrorKind.RETRY),
        (refused("ratelimited", 429), ErrorKind.RATE_LIMIT),
        (refused("missing_scope"), ErrorKind.PERMISSION),
        (refused("invalid_auth"), ErrorKind.PERMISSION),
        (refused("channel_not_found"), ErrorKind.GONE),
        (refused("message_not_found"), ErrorKind.GONE),
        (refused("invalid_blocks"), ErrorKind.OTHER),
        (refused("never_heard_of"), ErrorKind.OTHER),
    ):
        assert kind_of(error) is kind, error_code(error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            refused(
                "invalid_blocks",
                data={
                    "errors": ["must be more than 0 characters [json-pointer:/blocks/0/text]"],
                    "response_metadata": {
                        "messages": ["[ERROR] must be more than 0 characters [json-pointer:/blocks/0/text]"]
                    },
                },
            ),
            "invalid_blocks: must be more than 0 characters at /blocks/0/text",
        ),
        (
            refused("missing_scope", data={"needed": "files:write", "provided": "chat:write,commands"}),
            "missing_scope: needs files:write; the token has chat:write,commands",
        ),
        (refused("odd_one", data={"warning": "superfluous_charset"}), "odd_one: warning: superfluous_charset"),
        (refused("is_archived", data={"response_metadata": "?", "errors": {"a": 1}}), "is_archived"),
        (refused("odd_one"), "odd_one"),
        (unanswered(404), "HTTP 404"),
    ],
)
def test_a_refusal_is_explained_with_all_that_slack_says(error: SlackApiError, words: str) -> None:
    assert explain(error) == words
