"""Slack's tokens: where they are looked for, and what is refused without ever being repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.slack_credentials import slack_credentials


def test_nothing_is_required() -> None:
    credentials = slack_credentials({"SLACK_BOT_TOKEN": "", "SLACK_API_URL": ""})
    assert credentials.bot_token is None
    assert credentials.app_token is None
    assert credentials.api_url == "https://slack.com/api/"
    assert slack_credentials({"SLACK_API_URL": "http://127.0.0.1:1/api/"}).api_url == "http://127.0.0.1:1/api/"


def test_tokens_come_from_variables_or_from_files(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("xapp-2\n")
    credentials = slack_credentials({"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN_FILE": "app"}, folder=tmp_path)
    assert credentials.bot_token is not None
    assert credentials.app_token is not None
    assert credentials.bot_token.get_secret_value() == "xoxb-1"
    assert credentials.app_token.get_secret_value() == "xapp-2"
    assert "xoxb-1" not in repr(credentials)
    assert "xapp-2" not in str(credentials)


@pytest.mark.parametrize(
    "url", ["http://h/api", "http://h/", "h/api/", "ftp://h/api/", "http://[/api/", "http:// /api/"]
)
def test_an_address_that_is_no_api_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="SLACK_API_URL must be a URL that ends in /api/,"):
        slack_credentials({"SLACK_API_URL": url})


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"SLACK_BOT_TOKEN": "xapp-hunter2"}, "SLACK_BOT_TOKEN holds the other token"),
        ({"SLACK_APP_TOKEN": "xoxb-hunter2"}, "SLACK_APP_TOKEN holds the other token"),
        ({"SLACK_BOT_TOKEN": "xoxb-hunter2 x"}, "SLACK_BOT_TOKEN isn't a Slack token"),
        ({"SLACK_BOT_TOKEN": "a", "SLACK_BOT_TOKEN_FILE": "hunter2"}, "Both SLACK_BOT_TOKEN and SLACK_BOT_TOKEN_FILE"),
        ({"SLACK_APP_TOKEN_FILE": "/nowhere/hunter2"}, "SLACK_APP_TOKEN_FILE can't be read"),
        ({"SLACK_APP_TOKEN_FILE": "a\0hunter2"}, "SLACK_APP_TOKEN_FILE can't be read"),
    ],
)
def test_what_can_not_be_right_is_refused_without_repeating_it(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        slack_credentials(environ)
    assert sentence in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_holds_no_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 20_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("large", "binary"):
        with pytest.raises(ConfigError, match="SLACK_BOT_TOKEN_FILE"):
            slack_credentials({"SLACK_BOT_TOKEN_FILE": name}, folder=tmp_path)
